"""Types and values of tables: fields with ids, values as Arrow arrays, and times.

Read `schema` first. Its types cover both table formats, and all of harness uses its internal form of values.
"""
