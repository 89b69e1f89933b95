"""Slices of Delta tables: `pulling` selects their contents and writes the log, from the `actions` of the source."""
