"""Tables about tables: what the metadata of a snapshot says, as Arrow tables that SQL can read.

    harness.open_table("orders").metadata("files")
    harness.sql("SELECT * FROM orders.snapshots", orders=orders)

Those of Iceberg have the names and columns of Iceberg's own metadata tables on Spark, Delta's `versions` those of
`DESCRIBE HISTORY`. Where a million files are listed, none of them becomes an object. `naming` says which tables there
are, `reading` makes one; `iceberg_log`, `iceberg_files` and `delta` know the formats, `columns` makes Arrow columns.
"""
