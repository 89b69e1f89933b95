"""`harness shell`: `command` reads and completes lines, and `session` runs inputs."""
