"""The metadata layer: from a table's location to a `ScanPlan`. It knows no engine, and reads bytes by `storage` alone.

`iceberg` and `delta` read the metadata of their format; `plan.scan_plan` is the plan that both make. `model` holds
types and values, `files` decodes what the metadata points to, `filters` says which files cannot match, `catalogs`
finds tables by name, and `tables` shows metadata as rows.
"""
