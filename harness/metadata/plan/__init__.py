"""The plan of a read: the contract between formats, which make plans, and engines, which run them.

Read `scan_plan` first: it states what an engine must do with a plan. `deletes` describes the sources of deleted rows,
`encoding` turns a plan into bytes, `projection` finds a table's columns in a file, and `explain` shows a plan.
"""
