"""Runs plans on PySpark."""
