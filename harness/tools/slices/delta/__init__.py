"""Slices of Delta tables: `pulling` writes the log anew from the `contents`, by the `actions` of both."""
