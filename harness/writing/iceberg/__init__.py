"""Iceberg tables, written file by file; `builder` is the door."""
