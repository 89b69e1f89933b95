"""Rereads: one reader reads one snapshot in many ways that must agree, whatever the correct rows are.

`shapes` has the table of all ways, `checks` compares two reads, and `reads` performs a read of the table or of a copy.
"""
