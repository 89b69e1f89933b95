"""Bytes by location: the gate that every file passes, and the stores that hold it."""
