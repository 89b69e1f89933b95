"""Plans that the server of an Iceberg REST catalog makes.

`protocol` has the calls and their values. `calls` requests a plan, `tasks` parses it, and `planning` turns it into a
`ScanPlan`. `expressions` writes and reads Iceberg's JSON for conditions, and `values` for single values.
"""
