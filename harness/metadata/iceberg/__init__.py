"""Iceberg tables, format versions 1 to 3: from a location to a ScanPlan.

Read in the order of the data's way: `table` finds the current metadata file, `metadata` parses it into `model` (with
`types`, `transforms` and `json_doc`), `source` selects the snapshot and knows where files are, `manifests` and
`columns` list its files, `name_mapping` gives field ids to files without any, `summaries` and `skipping` say which of
them need not be read, `delete_scope` says which deletes apply to which data file, `deletes` and `position_deletes` find
and load them, and `scan` makes the plan with `file_list`. Rule numbers in docstrings and errors ("iceberg 1.17") are
those of `docs/rules/iceberg.md`.
"""
