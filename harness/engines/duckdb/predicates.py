"""What a filter says about single columns, as SQL conditions on other expressions of the same values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.engines.shared import sqltext
from harness.filters.predicate import And, Comparison, In, IsNull, Predicate, StartsWith


def implied(predicate: Predicate, columns: Mapping[int, str]) -> list[str]:
    """Conditions that hold wherever `predicate` is true, each about one column.

    Args:
        predicate: of the filter.
        columns: by field id, an expression with the column's values; other columns are left out.
    """
    return [sql for part in _conjuncts(predicate) if (sql := _condition(part, columns)) is not None]


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if isinstance(predicate, And):
        for part in predicate.parts:
            yield from _conjuncts(part)
    else:
        yield predicate


def _condition(part: Predicate, columns: Mapping[int, str]) -> str | None:
    match part:
        case Comparison(field=f, op=op, value=value) if f.id in columns:
            return f"{columns[f.id]} {op.value} {sqltext.literal(value, f.type)}"
        case In(field=f, values=values, negated=negated) if f.id in columns:
            items = ", ".join(sqltext.literal(value, f.type) for value in values)
            return f"{columns[f.id]} {'NOT ' if negated else ''}IN ({items})"
        case IsNull(field=f, negated=negated) if f.id in columns:
            return f"{columns[f.id]} IS {'NOT ' if negated else ''}NULL"
        case StartsWith(field=f, prefix=prefix, negated=negated) if f.id in columns:
            return f"{'NOT ' if negated else ''}starts_with({columns[f.id]}, {sqltext.text(prefix)})"
        case _:
            return None
