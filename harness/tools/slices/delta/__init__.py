"""Slices of Delta tables: which actions they hold, and their log written anew."""
