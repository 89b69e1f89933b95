"""Untrusted tables, read in a separate process with few rights.

Read `reading` first: its function `read_untrusted` returns the rows of a table or query. `launching` starts the
process, receives its output, and ends it; it uses `children` for the pipes and `cgroups` for resource limits. `worker`
runs in the process and confines itself with `confining` and `seccomp`. `bounds` defines the limits;
`docs/how-to/untrusted-tables.md` describes how each limit is enforced.

Nothing that a worker sends is trusted. Its output has a limited number of bytes and is never a pickle. `arrow_messages`
checks Arrow data before it is decoded, and texts of the worker are printed through `visible`. `harness.suite.workers`
uses the same `children` and `arrow_messages` for readers of other projects.
"""
