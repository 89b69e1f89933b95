"""Tools on top of reads: `slices` of tables, also with other values (`anonymising`), `connections` in whose SQL a
catalog's tables are there by name, the process for strangers' tables in `contained`, and the plug-in for dbt-duckdb.
Slices need `anonymising`; no other needs another.
"""
