"""Types and values of tables: fields with ids, values as Arrow holds them, times.

`schema` comes first: its types are those of both formats, and its internal values travel through all of harness.
"""
