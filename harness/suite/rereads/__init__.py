"""Rereads: one reader reads one snapshot in many ways that must agree, whatever the right rows are.

`shapes` has the table of all ways, `checks` compares two reads, and `reads` makes one, of the table or of a copy.
"""
