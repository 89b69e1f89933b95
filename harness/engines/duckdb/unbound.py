"""What DuckDB says of a query that names a column which is not there.

A view of a plan has only the columns that the query uses, so DuckDB would suggest among those: for a misspelt column
that is the only one, none at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import duckdb

from harness.engines.shared import sqltext
from harness.errors import HarnessError
from harness.plan.scan_plan import ScanPlan


def better_told(
    error: duckdb.BinderException, text: str, plans: Mapping[str, ScanPlan], connection: duckdb.DuckDBPyConnection
) -> duckdb.Error:
    """The error that the query gives where its tables have all their columns; `error` itself if there is none.

    The views or relations of the plans are gone from the connection afterwards.
    """
    made = []
    try:
        for name, plan in plans.items():
            table = sqltext.name(name)
            connection.unregister(name)
            connection.execute(f"DROP VIEW IF EXISTS {table}")
            connection.execute(f"CREATE TEMPORARY TABLE {table} ({_columns(plan)})")
            made.append(table)
        connection.sql(text)
    except duckdb.BinderException as better:
        return better
    except (duckdb.Error, HarnessError):  # a name or type that DuckDB's tables cannot have
        return error
    finally:
        for table in made:
            with contextlib.suppress(duckdb.Error):
                connection.execute(f"DROP TABLE {table}")
    return error


def _columns(plan: ScanPlan) -> str:
    fields = {f.name.casefold(): f for f in (*plan.columns, *plan.schema.fields)}
    return ", ".join(f"{sqltext.name(f.name)} {sqltext.type_name(f.type)}" for f in fields.values())
