"""Delta Lake tables, reader versions 1 to 3: from a location to a ScanPlan.

Read in the order of the data's way. `log_files` lists the log and reads its hint. `segment` chooses the checkpoint and
the commits that make a version, by a catalog's answer where one is given. `commit_times` finds the version of a time.
`commits` and `checkpoints` read the chosen files, `replay` reconciles their actions into the state of the version.
`protocol` refuses unknown features, `types` and `partition_values` type the state, and `scan` finds the files and rows
that are left, and makes the plan. `changes` plans a change data feed from the commits
alone. Rule numbers in docstrings and errors ("delta L21") are those of `docs/rules/delta.md`.
"""
