"""The dialects that SQL text is parsed in: sqlglot's, but for what that reads otherwise than DuckDB does."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect


def language(dialect: str) -> Dialect:
    """The dialect of that name.

    Raises:
        ValueError: sqlglot has none.
    """
    return _duckdb()() if dialect == "duckdb" else Dialect.get_or_raise(dialect)


@cache
def _duckdb() -> type[Dialect]:
    from sqlglot.dialects.duckdb import DuckDB

    base: Any = DuckDB.Parser

    class Parser(base):  # type: ignore[misc]
        def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr:
            """`x IN [1, 2]` looks into a list; sqlglot takes it for `x IN (1, 2)`, which has nulls of its own."""
            if self._curr is not None and self._curr.text == "[":
                return exp.In(this=this, field=self._parse_bitwise())
            found: exp.Expr = super()._parse_in(this, alias)
            return found

    return type("HarnessDuckDB", (DuckDB,), {"Parser": Parser})
