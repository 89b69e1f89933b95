"""Metadata tables, for example `files` and `history`, as Arrow tables.

Read `reading` first, which defines their names. `delta` makes the tables of a Delta log, and `iceberg_log` and
`iceberg_files` make those of Iceberg's metadata files and manifests. `history` shows the history of a table.
"""
