"""Delta tables: from a location to a ScanPlan.

Read in the order of the data's way: `log_files` lists the log, `segment` chooses what to read of it, `commits` and
`checkpoints` read it into `actions`, `replay` reconciles them into the state of one version, `protocol`, `types` and
`column_mapping` say what the columns are, `skipping` which files need not be read, `deletion_vectors` which rows are
deleted, and `scan` makes the plan. Rule numbers in docstrings and errors ("delta L21") are those of the project's
requirement list for Delta readers.
"""
