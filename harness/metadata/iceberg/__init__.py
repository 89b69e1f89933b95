"""Iceberg tables, format versions 1 to 3: from a location to a ScanPlan.

Read in the order of the data's way: `discovery` finds the current metadata file, `metadata` parses it (with `types`,
`defaults` and `specs`), `snapshots` selects what to read, `manifests` lists its files, `deletes` says which of them
lose rows, `pruning` which of them need not be read, and `scan` makes the plan. Rule numbers in docstrings and errors
("iceberg 1.17") are those of `docs/rules/iceberg.md`.
"""
