"""Slices of Iceberg tables: `pulling` rewrites delete files, and `manifests` selects and writes the metadata."""
