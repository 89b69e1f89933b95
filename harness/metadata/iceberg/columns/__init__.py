"""Decoder of many manifests at once, into one table with a row per file.

`reading` is the entry point. `entries` groups manifests into batches and defines the columns of the table. `lockstep`
and `sequential` find the byte offsets of the needed fields, and `stored` decodes the values at these offsets. `reading`
then adds the values that entries inherit from the manifest list.
"""
