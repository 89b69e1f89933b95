"""The files of manifests as one table of columns, decoded from many manifests at once.

`reading_manifests` is the entry point. `entries` batches manifests and defines the table, `walk` and `alone` note the places of
values, and `raw` reads the values at these places. `reading_manifests` then adds what entries inherit from the manifest list.
"""
