"""Delta tables, written commit by commit."""
