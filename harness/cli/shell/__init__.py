"""`harness shell`: `command` asks for lines and completes them, `session` runs an input."""
