"""Iceberg tables, format versions 1 to 3: from a location to a ScanPlan.

Read the modules in this order. `table` finds the current metadata file and reads the files that it lists, and
`metadata` parses it into `model` (with `types`, which parses name mappings too, and `transforms`) and finds out whether
the table was moved. `time_travel` selects the snapshot. `manifests` and `columns` list a snapshot's files. `summaries`
and `skipping` find the files that a filter excludes.
`delete_scope` decides which deletes apply to which data file, and `planned_deletes` states them for a plan.
`scan` makes the plan. Rule numbers in docstrings and errors ("iceberg 1.17") are those of
`docs/rules/iceberg.md`.
"""
