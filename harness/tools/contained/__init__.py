"""Tables of strangers, read in a process of their own that can do little besides.

    read_untrusted()   the rows of a table, or of a query on it, from such a process           `reading`
    run()              the same for any work that is named by its module: starts the process,
                       takes its bytes, ends it                                                `launching`
    worker             what runs there: confines itself, then works
    confining          all limits together; each says whether it holds here
    bounds             how much a worker may use
    namespaces, seccomp, landlock   what Linux lets a process give up for good
    syscalls         the calls that a read takes
    refusals, watching, cgroups, scratch   of the process that waits: what was refused, what is held, where

What holds which limit is said in `docs/how-to/tables-of-strangers.md`. Nothing that a worker sends is trusted: its
output is bytes, never pickles, up to a number of them; Arrow data is validated; what it says passes `visible`.
"""
