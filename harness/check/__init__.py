"""`harness check`: compares all statements in a table's metadata with the specification and with the data.

`rules` defines what a rule is and holds the register. Each topic has a module of rules: `iceberg_metadata`,
`iceberg_manifests`, … `running` opens a table and applies the rules, and `reports` writes the findings. To add a rule,
write a decorated function in its topic's module and a scenario that breaks the rule.
"""
