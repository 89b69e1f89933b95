"""Scenarios of Delta: `history` runs operations, `writes` writes files, and `features` has the proofs."""
