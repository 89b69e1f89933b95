"""Tables with pseudonyms in place of their values. Joins, groups, and partitions stay the same.

`pseudonyms` maps each value to another value, chosen by a key. `iceberg` and `delta` change metadata that contains
values. Only slices use this package: they rewrite each data file once, with fewer rows and with pseudonyms (decision
18).
"""
