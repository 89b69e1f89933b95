"""`harness shell`: statements and commands, one after the other, from a person or from a pipe.

`command` is the command, `session` runs one input, `dot_commands` are those that are no SQL, `terminal_lines` asks a
person for lines, and `completion` says how a line may go on.
"""
