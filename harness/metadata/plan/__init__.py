"""The plan of a read: the contract between formats, which make it, and engines, which run it.

`scan_plan` is the first file to read of all: it says what an engine owes a plan. `projection` finds a table's columns
in a file, `containment` holds the files against the roots of the table, `explain` and `file_index` show a plan.
"""
