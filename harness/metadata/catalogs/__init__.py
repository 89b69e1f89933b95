"""Catalogs: which tables there are, by name, and where each of them is. Rows and metadata are read by others.

`catalog` is the interface: what a catalog answers, `Located`, is all that opening a table takes. `warehouse` is a
directory as a catalog, `pyiceberg` the catalogs that PyIceberg speaks to, and `resolving` finds which one is meant.
"""
