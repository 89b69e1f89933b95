"""Metadata tables, such as `files` or `history`, as Arrow tables. Read `reading` first, which knows their names.

`delta` makes those of a Delta log, `iceberg_log` and `iceberg_files` those of Iceberg's metadata files and manifests,
`iceberg_positions` the one of position deletes.
"""
