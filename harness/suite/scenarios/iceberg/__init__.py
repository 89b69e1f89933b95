"""Scenarios of Iceberg: `history` runs operations, `writes` and `edits` make files, `features` proves what occurs."""
