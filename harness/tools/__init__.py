"""Tools on top of reads: `slices` of tables, `connections` in whose SQL a catalog's tables are there by name,
the process for strangers' tables in `contained`, and the plug-in for dbt-duckdb. None needs another.
"""
