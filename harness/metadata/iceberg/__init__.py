"""Iceberg tables of format versions 1 to 3: from a location to a ScanPlan.

Read the modules in this order. `table` finds the current metadata file and reads the files that it lists. `metadata`
parses that file into `model` (using `types`, which also parses name mappings, and `transforms`) and detects whether the
table was moved. `time_travel` selects the snapshot. `manifests` and `columns` list the files of a snapshot. `summaries`
and `skipping` find the files that a filter excludes. `delete_scope` decides which deletes apply to which data file, and
`planned_deletes` adds them to the plan. `scan` makes the plan.

Rule numbers in docstrings and errors ("iceberg 1.17") refer to `docs/rules/iceberg.md`.
"""
