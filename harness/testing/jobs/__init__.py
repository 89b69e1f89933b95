"""Spark jobs under test: a job's own names and paths lead to tables that harness plans, and its writes are kept apart.

    spark_session, register     sessions that know a test's tables (`session`)
    SparkJob                    the reads and writes in a session (`job`)

Spark asks through Java classes beside these modules (`java/`), compiled as the engine's are: a catalog, data sources
for `format("iceberg")` and `format("delta")`, a rule that puts a plan's frame in the place of a scan, and a proxy of
the parser. They hand every question to `bridge`, which looks it up in `tables`.
"""
