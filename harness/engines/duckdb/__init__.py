"""The DuckDB engine: runs a `ScanPlan` as one SQL query, with DuckDB's own Parquet reader where that reads right.

    cursor()                     a connection to the one instance that harness's own reads share
    connect()                    an instance of the caller's own, with the same settings
    relation(plan)               a lazy relation over the planned rows
    register(plan, con, name)    the same as a temporary view in a user's own connection
    to_arrow(plan)               the rows, in the plan's exact Arrow types
    batches(plan)                the same as a stream
    query(text, plans)           a query over several plans
    filled(text, plans, con)     a statement over plans, as text
    query_text(text, plans, con) a query over plans, as text
    attach(plans, con)           plans as views of a user's database, by qualified name
    moment(con)                  when a query on a user's connection is made
    zoned(filter, con)           a filter as planning may use it for a user's connection
    columns_of(text, plans)      the names of its columns, without reading
    syntax_trees(*texts)         what its parser makes of queries
    engine_error(error, plan)    what DuckDB's failure on the plan's files means
    release(con)                 takes away what all of these have left on a user's connection
    name, version()              as `harness.engines.registry.Engine` wants them

`sqltext` quotes, `columns` lowers one column, `scans` groups and opens files, `equality` and `arm` apply deletes,
`lowering` puts the query together.
"""

import duckdb

from harness.engines.duckdb.attached import attach
from harness.engines.duckdb.engine import register, relation, to_arrow, zoned
from harness.engines.duckdb.failures import engine_error
from harness.engines.duckdb.queries import columns_of, filled, moment, query, query_text, syntax_trees
from harness.engines.duckdb.releasing import release
from harness.engines.duckdb.streams import batches
from harness.engines.shared.duckdb_instance import connect, cursor

__all__ = [
    "attach",
    "batches",
    "columns_of",
    "connect",
    "cursor",
    "engine_error",
    "filled",
    "moment",
    "name",
    "query",
    "query_text",
    "register",
    "relation",
    "release",
    "syntax_trees",
    "to_arrow",
    "version",
    "zoned",
]

name = "duckdb"


def version() -> str:
    """The version of DuckDB."""
    return duckdb.__version__
