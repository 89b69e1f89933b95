"""Slices of Iceberg tables: which entries they hold, and their manifests and metadata written anew."""
