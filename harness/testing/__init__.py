"""What tests of tables need: builders of tables on disk, in plain Python, and the demo tables.

`harness.testing.writing.iceberg.builder.IcebergTable` and `harness.testing.writing.delta.builder.DeltaTable` write
tables without a JVM and without the reader's code.
"""
