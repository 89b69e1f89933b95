"""Scenarios of Delta: `history` runs operations, `writes` writes files, `features` proves what occurs."""
