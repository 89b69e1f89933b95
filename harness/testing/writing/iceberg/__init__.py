"""Iceberg tables, written file by file."""
