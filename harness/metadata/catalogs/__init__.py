"""Catalogs: the names of tables, and the location of each table. Rows and metadata are read elsewhere.

Read `catalog` first: its answer `TableLocation` is all that is needed to open a table. `warehouse` treats a directory
as a catalog, `unity` uses Unity Catalog, and `pyiceberg` uses the catalogs that PyIceberg supports. `resolving` finds
the catalog of a name.
"""
