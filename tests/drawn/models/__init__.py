"""What a table must hold after a history, worked out without reading it."""
