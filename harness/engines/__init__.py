"""Engines: each turns a `ScanPlan` into rows, in its own way, and knows nothing of table formats.

Read `registry` first: what harness asks of an engine, and how an engine is found. The other modules are what every
engine needs of a plan: `union_arms` sorts its files by how they are read, `file_groups` and `footers` look at them,
`column_values` says where values come from, `data_files` reads what comes in through Arrow.
"""
