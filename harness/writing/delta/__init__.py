"""Delta tables, written commit by commit; `builder` is the door."""
