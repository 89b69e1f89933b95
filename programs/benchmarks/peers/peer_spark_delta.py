"""Spark for tables of Delta."""

from spark_reference import SparkReference

_REFERENCE = SparkReference("delta")

versions, other_processes = _REFERENCE.versions, _REFERENCE.other_processes
plain, harness, jar = _REFERENCE.plain, _REFERENCE.harness, _REFERENCE.jar
