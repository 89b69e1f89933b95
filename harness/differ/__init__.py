"""Tells whether two results are the same rows, and where they are not."""
