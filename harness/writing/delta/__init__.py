"""A writer of Delta tables, commit by commit. Start with `builder`."""
