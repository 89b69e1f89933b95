"""Catalogs that PyIceberg speaks to, configured as PyIceberg is: they find tables, and reading stays harness's.

`configured` makes one by its name, `adapter` asks it, `answers` is what each kind says of a table. The package is the
only home of PyIceberg in what users call.
"""
