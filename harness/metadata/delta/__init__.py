"""Delta Lake tables, reader versions 1 to 3: from a location to a `ScanPlan`.

Read the modules in this order, which is the order of the data flow. `log_files` lists the log and reads the hint
`_last_checkpoint`. `segment` chooses the checkpoint and the commits that make up a version, using the catalog's answer
if there is one. `commit_times` finds the version of a point in time. `commits` and `checkpoints` read the chosen files,
and `replay` reconciles their actions into the state of the version. `protocol` refuses unknown features. `types` and
`partition_values` interpret the schema and the partition values of the state. `scan` drops the files that a filter
rules out and makes the plan. `changes` plans a change data feed from the commits alone.

Rule numbers in docstrings and errors ("delta L21") refer to `docs/rules/delta.md`.
"""
