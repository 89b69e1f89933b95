"""Plans that the server of an Iceberg REST catalog makes.

`protocol` defines the calls and their values. `calls` requests a plan, `tasks` parses it, and `planning` converts it to
a `ScanPlan`. `expressions` converts conditions to and from Iceberg's JSON, and `values` converts single values.
"""
