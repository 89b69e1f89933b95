"""Spark as an engine: a plan becomes one lazy frame. Read `engine` first, then `lowering`.

`gateway` hands planned files to the driver's JVM, whose classes `java/` has; `planned_source` and `connect` read where
there is none. `looks` has executors look at files, `arrow_scan` has them read what Spark would not read right.
`transpile` writes filters and queries in Spark's SQL.
"""
