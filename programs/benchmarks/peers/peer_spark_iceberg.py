"""Spark for tables of Iceberg."""

from spark_reference import SparkReference

_REFERENCE = SparkReference("iceberg")

versions, other_processes = _REFERENCE.versions, _REFERENCE.other_processes
plain, harness, jar = _REFERENCE.plain, _REFERENCE.harness, _REFERENCE.jar
both_ends, changes, changelog_view = _REFERENCE.both_ends, _REFERENCE.changes, _REFERENCE.changelog_view
