"""The metadata layer: from the location of a table to a `ScanPlan`.

It knows no engine, and reads bytes only through `storage`. `iceberg` and `delta` read the metadata of their format, and
both make a `plan.scan_plan`. `model` holds types and values, `files` decodes file formats, `filters` decides which
files cannot match, `deletes` reads deleted positions, `catalogs` finds tables by name, and `tables` shows metadata as
rows.
"""
