"""What tests of tables need: builders of tables on disk, in plain Python, and the demo tables.

`harness.writing.iceberg.builder.IcebergTable` and `harness.writing.delta.builder.DeltaTable` write tables without a
JVM and without the reader's code.
"""
