"""The deleted positions of a plan's data files, read from what the plan records.

Read `loading` first: it reads the sources that `harness.metadata.plan.deletes` defines. `position_files` and `puffin`
decode those of Iceberg, `delta_vectors` those of Delta.
"""
