"""Reads tables on a cluster, as JSON on each line: rows, or the class and the message of an error."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import harness

CONFIG = {"spark.driver.host": "127.0.0.1", "spark.driver.memory": "512m", "spark.executor.memory": "512m"}

if sys.argv[1] == "connect":
    spark = SparkSession.builder.remote("local[1]").getOrCreate()
else:
    spark = harness.spark_session(master=sys.argv[1], config=CONFIG)
for location in sys.argv[2:]:
    try:
        frame = harness.open_table(location).snapshot().to_spark(spark)
        rows = frame.collect()
        assert frame.count() == len(rows)
        print(json.dumps({"rows": sorted(map(list, rows))}))
    except harness.HarnessError as error:
        print(json.dumps({"error": type(error).__name__, "message": error.message}))
spark.stop()
