"""Slices of Delta tables: `pulling` chooses their contents and writes the log anew, in the `actions` of both."""
