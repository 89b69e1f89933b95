"""Deleted positions of a plan's data files, read from the sources that the plan records.

Read `loading` first: it reads the sources that `harness.metadata.plan.deletes` defines. `position_files` and `puffin`
decode the sources of Iceberg, `delta_vectors` those of Delta.
"""
