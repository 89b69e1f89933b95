"""Metadata tables, such as `files` or `history`, as Arrow tables. Read `reading` first, which knows their names.

`delta` makes the tables of a Delta log, `iceberg_log` and `iceberg_files` those of Iceberg's metadata files and
manifests.
"""
