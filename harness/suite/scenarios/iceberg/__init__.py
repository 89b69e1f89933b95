"""Scenarios of Iceberg: `history` runs operations, `writes` and `edits` make files, and `features` has the proofs."""
