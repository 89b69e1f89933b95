"""From DuckDB's dialect to Spark's, by meaning: what is written for Spark gives the same rows there, or is refused.

    condition(filter, columns)      a filter as a condition on other columns
    query(text, tables)             a whole query, with the columns that it gives
    result_columns(query, ...)      the columns of its result, as DuckDB describes them

sqlglot only parses. What it would write for Spark differs in rows from what DuckDB does, without an error, in too many
places (`avg` of decimals, the order of `*` after USING, backslashes in LIKE, `upper` beyond ASCII, rounding casts, list
indexes, ...). So an expression goes over only where this package knows its meaning on both engines, type by type;
anything else is an UnsupportedError that names it. Under ANSI mode, in time zone UTC, without case-sensitive names.

Three allowances: sums and averages of floating-point numbers depend on the order of rows on either engine; where one
engine raises an error (a division by zero, an overflow, a text that is no number) the other may have a value; and which
of 0.0 and -0.0, being equal, stands for a group of both is open.

    spark_text    names, literals and types in Spark's SQL
    nodes         which parsed nodes may be looked at
    values        expressions with their types, and how two types become one
    predicates    conditions that `harness.filters.predicate` has understood
    expressions   operators
    comparisons   comparing, IN, BETWEEN, LIKE; ANY and ALL in `quantified`
    functions     the table of scalar functions; casts in `casts`
    exact_numbers arithmetic of decimals and 128-bit integers
    aggregates    aggregates; those that depend on an order in `ordered_aggregates`
    windows       window functions; their frames in `frames`
    ordering      items of ORDER BY
    supported     all entries of the table of functions
    parser        SQL text, parsed so that the functions stay what was written
    scopes        what names mean in a query
    sources       what stands in FROM
    joins         joins; the nearest row of `asof`
    pivots        PIVOT and UNPIVOT
    recursion     WITH RECURSIVE
    set_operations UNION and its kind
    unnest        UNNEST in the projection
    projection    the items of SELECT
    relations     queries with the columns that they give
    grouping      GROUP BY
    order_limit   ORDER BY and LIMIT of a query
    queries       SELECT and what surrounds it
    filters       a plan's filter
    results       the columns of a result
"""

from harness.queries.transpile.filters import condition
from harness.queries.transpile.queries import Query, query
from harness.queries.transpile.results import result_columns

__all__ = ["Query", "condition", "query", "result_columns"]
