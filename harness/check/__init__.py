"""`harness check`: every statement of a table's metadata, held against the specification and against the data.

`rules` says what a rule is, and holds the register. Each topic is a file of rules: `iceberg_metadata`,
`iceberg_manifests`, … `running` opens a table and asks the rules; `reports` writes what they found. To add a rule,
write a decorated function in its topic and a scenario that breaks the rule.
"""
