"""Delta Lake tables, reader versions 1 to 3: from a location to a ScanPlan.

Read in the order of the data's way: `log_files` lists the log, `last_checkpoint` reads the hint that lies in it,
`segment` chooses the checkpoint and the commits that make a version, `commit_times` finds the version of a time,
`commits` and `checkpoints` read the chosen files, `replay` reconciles their actions into the state of the version,
`protocol` says whether harness may read it, `types`, `column_mapping` and `partition_values` type it, `skipping` and
`deletion_vectors` say which files and rows are left, and `scan` makes the plan. `changes` plans a change data feed
from the commits alone. Rule numbers in docstrings and errors ("delta L21") are those of
`docs/rules/delta.md`.
"""
