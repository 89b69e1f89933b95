"""Scenarios: files that define a table's history and the expected results of reading it.

`loading` parses a file into the values of `model`, `building` makes the table with the history class of its format, and
`verifying` compares reads with the expected results. `evidence` and `features` prove that a declared feature occurs.
"""
