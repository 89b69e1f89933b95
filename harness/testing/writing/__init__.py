"""Builders of tables on the local disk, written from the specifications and without the reader's code.

Read `iceberg.builder` and `delta.builder` first. `arrow` and `places` are what both formats need.
"""
