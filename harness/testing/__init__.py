"""What tests of tables need: builders of tables on disk, in plain Python, and the demo tables.

`harness.testing.iceberg.IcebergTable` and `harness.testing.delta.DeltaTable` write tables without a JVM and without the
reader's code.
"""
