"""Catalogs: the names of tables, and where each table is. Rows and metadata are read elsewhere.

Read `catalog` first: its answer `Located` is all that opening a table takes. `warehouse` is a directory as a catalog,
`unity` asks Unity Catalog, `pyiceberg` the catalogs that PyIceberg speaks to. `resolving` finds the catalog of a name.
"""
