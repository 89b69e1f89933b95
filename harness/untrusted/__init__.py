"""Untrusted tables, read in a process of their own that can do little besides.

Read `reading` first, whose `read_untrusted` gives the rows of a table or query. `launching` starts the process, takes
its bytes and ends it, with `children` for its pipes and `cgroups` for its limits. `worker` runs there and confines
itself by `confining` and `seccomp`. `bounds` holds the limits' numbers; `docs/how-to/untrusted-tables.md` says which
wall holds each of them.

Nothing that a worker sends is trusted: its output is a limited number of bytes, never pickles; `arrow_messages` checks
Arrow data before it is decoded; the worker's words pass `visible`. `harness.suite.workers` treats readers
of other projects by the same `children` and `arrow_messages`.
"""
