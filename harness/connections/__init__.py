"""Connections: SQL that can use every table of a catalog by its name.

Read `connection` first: it runs statements, returns rows, and attaches views to a user's DuckDB connection.
`statements` splits a text and rewrites each statement for DuckDB. `tables` finds the tables for names.
"""
