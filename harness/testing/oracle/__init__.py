"""A second reader in plain Python, row by row; slow, and meant to be seen to be right.

It shares nothing with what it judges: `planner` plans a read, and `engine` runs a plan, its own or harness's. Read
`planner.plan` and `engine.reading` first.
"""
