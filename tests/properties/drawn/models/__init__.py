"""The rows that a table must hold after a history, worked out without reading it."""
