"""Engines: each engine turns a `ScanPlan` into rows and is independent of the table formats.

Start with `registry`, which defines what harness requires of an engine and how an engine is looked up. The other
modules are shared by the engines: `union_arms` groups the planned files by how they are read, `file_groups` and
`footers` read schemas and row counts before any row, `column_values` describes the source of each column's values,
and `data_files` reads the files that DuckDB and Spark cannot read by themselves, as Arrow tables.
"""
