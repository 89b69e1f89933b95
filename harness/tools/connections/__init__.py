"""Connections: SQL in which every table of a catalog is there by its name.

`tables` says what a name stands for, `connection` runs statements and hands out rows, `attaching` makes views on a
DuckDB connection of the user's, for tools that need one.
"""
