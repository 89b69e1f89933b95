"""Spark jobs under test: harness plans the tables that a job reads by name or path, and records its writes.

    spark_session     a session in which a job finds a test's tables (`session`)
    SparkJob          the reads and writes in a session (`job`)

Spark calls Java classes in the folder `java/`, compiled like those of the engine: a catalog, data sources for
`format("iceberg")` and `format("delta")`, a rule that replaces a scan by the DataFrame of a plan, and a proxy of the
parser. They forward every call to `bridge`, which looks it up in `tables`.
"""
