"""Builders of small tables on the local disk, written from the specifications and without the reader's code.

Read `iceberg.builder` and `delta.builder` first. `arrow` and `local_files` contain what both formats need. The only
code that readers and builders share is the bucket hash of Iceberg, `metadata.model.murmur3`, which tests compare with
the values in the specification.
"""
