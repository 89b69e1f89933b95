"""Names as they are typed into SQL: `sales."a-b"`, `"select".orders`."""

from __future__ import annotations

import re
from functools import cache

from harness.catalogs.names import Name
from harness.engines.shared.duckdb_instance import cursor
from harness.filters.column_names import quoted

_PLAIN = re.compile(r"[^\W\d]\w*")


def in_sql(name: Name) -> str:
    """A name of tables, namespaces or columns; a part stands in quotes where SQL wants them."""
    return ".".join(part if _PLAIN.fullmatch(part) and part.lower() not in _words() else quoted(part) for part in name)


@cache
def _words() -> frozenset[str]:
    """Those of SQL that are no names without quotes, as this DuckDB says."""
    with cursor() as own:
        rows = own.execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'")
        return frozenset(word for (word,) in rows.fetchall())
