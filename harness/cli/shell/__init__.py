"""`harness shell`: statements and commands, one after the other, from a person or from a pipe.

`command` is the command. `session` runs one input. `terminal_lines` asks a person for lines and completes them.
"""
