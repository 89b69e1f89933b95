"""Connections: SQL in which every table of a catalog is there by its name.

Read `connection` first: it runs statements, hands out rows, and attaches views to a DuckDB connection of the user's.
`statements` splits a text, and makes DuckDB's statement of the user's; `tables` finds the tables behind names.
"""
