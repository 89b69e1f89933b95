"""The Spark engine, which turns a plan into one lazy DataFrame. Start with `engine`, then read `lowering`.

`gateway` passes planned files to the driver's JVM, whose additional classes are in `java/`. Without access to a JVM,
`planned_source` and `connect` read the files. `file_opener` lets executors read schemas and row counts, and
`arrow_scan` lets executors read files that Spark itself would read wrong. `transpile` translates filters and queries to
Spark's SQL.
"""
