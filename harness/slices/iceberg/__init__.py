"""Slices of Iceberg tables: `pulling` writes delete files anew, and `manifests` chooses and writes the metadata."""
