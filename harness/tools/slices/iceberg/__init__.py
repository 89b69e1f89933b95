"""Slices of Iceberg tables: `pulling` writes delete files anew from the `contents`, and `manifests` the metadata."""
