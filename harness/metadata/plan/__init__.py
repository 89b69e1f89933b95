"""The plan of a read: the contract between formats, which make it, and engines, which run it.

Read `scan_plan` first: it states what an engine owes a plan. `deletes` has the sources of deleted rows, `encoding`
turns a plan into bytes, `projection` finds a table's columns in a file, and `explain` shows a plan.
"""
