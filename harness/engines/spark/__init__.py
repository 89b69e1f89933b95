"""The Spark engine: runs a `ScanPlan` as one lazy frame, by Spark's own Parquet and ORC readers where they read right.

    dataframe(plan, spark)       the planned rows as a frame of a user's session
    to_arrow(plan)               the rows, in the plan's exact Arrow types
    query(text, plans, spark)    a query over several plans
    name, version()              as `harness.engines.registry.Engine` wants them

`session` makes local sessions, `gateway` hands planned files to the JVM, `types` and `columns` lower one column,
`scans` opens groups of files, `positions` and `equality` apply deletes, `arm` and `lowering` put the frame together.
"""

import pyspark

from harness.engines.spark.engine import dataframe, to_arrow
from harness.engines.spark.queries import query

__all__ = ["dataframe", "name", "query", "to_arrow", "version"]

name = "spark"


def version() -> str:
    """The version of PySpark."""
    return pyspark.__version__
