"""The plan of a read: the contract between formats, which make it, and engines, which run it.

Read `scan_plan` first: it states what an engine owes a plan. `projection` finds a table's columns in a file,
`containment` checks that the files are within the roots of the table, and `explain` shows a plan.
"""
