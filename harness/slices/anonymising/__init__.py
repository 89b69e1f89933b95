"""Tables with other values that join, group and partition as theirs do.

`pseudonyms` gives each value another one, by a key. `iceberg` and `delta` change the metadata that holds values. Slices
are the only user: they write data files anew in one pass, with the rows that stay and with other values (decision 18).
"""
