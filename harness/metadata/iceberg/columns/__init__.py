"""Live data files of a snapshot as columns, decoded from many manifests at once.

`reading` is the way through: `entries` gathers manifests and finds where their entries begin, `walk` goes over them and
notes places, `raw` makes columns of these places and keeps them, and `data_files` is what comes of it.
"""
