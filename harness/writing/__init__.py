"""Builders of tables on the local disk, written from the specifications and without the reader's code.

Read `iceberg.builder` and `delta.builder` first. `arrow` and `places` are what both formats need. Readers and builders
share the hash of Iceberg's buckets, `metadata.model.murmur3`, which tests hold to the values of the specification.
"""
