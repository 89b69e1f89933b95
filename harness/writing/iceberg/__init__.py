"""A writer of Iceberg tables, file by file. Start with `builder`."""
