"""Data manifests as columns: the entries of a whole snapshot decoded, filtered and planned without an object for each.

`varints` and `layout` decode many Avro blocks at once, `reading` turns manifests into `data_files`' columns, and
`matching` holds a filter against them. The decoder that goes entry by entry (`harness.iceberg.manifests`) is the judge:
whatever is odd about a manifest is left to it, so that damage gives the same error, and oddities the same entries.
"""
