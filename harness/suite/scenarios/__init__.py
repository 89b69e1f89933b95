"""Scenarios: files that say a table's history, and what reading it must give.

`loading` reads a file into the values of `model`, `building` makes the table through the history of its format, and
`verifying` holds reads against it. `evidence` and `features` prove that a claimed feature occurs.
"""
