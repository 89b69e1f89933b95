"""What all rows of one group of a SELECT have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from harness.filters.value_texts import whole_number


def is_key(select: exp.Select, expression: exp.Expr, is_column: Callable[[str], bool]) -> bool:
    """Whether all rows of a group have one value of an expression; true where nothing is grouped.

    is_column: whether a source of the SELECT has a column of that name, or may have: it hides an alias of the name.
    """
    group = select.args.get("group")
    if group is None or group.args.get("all"):
        return group is None or _is_plain(group)
    return _is_plain(group) and _is_made_of(expression, list(_keys(select, group, is_column)))


def _is_plain(group: exp.Group) -> bool:
    """ROLLUP and its like put nulls in place of keys."""
    return not any(value for key, value in group.args.items() if key not in ("expressions", "all"))


def _keys(select: exp.Select, group: exp.Group, is_column: Callable[[str], bool]) -> Iterator[exp.Expr]:
    for key in group.expressions:
        place = whole_number(key.name) if isinstance(key, exp.Literal) else None
        if place is not None and 0 < place <= len(select.expressions):
            yield select.expressions[place - 1].unalias()
            continue
        yield key
        if type(key) is exp.Column and len(key.parts) == 1 and not is_column(key.name):
            yield from aliased(select, key.name)


def aliased(select: exp.Select, name: str) -> list[exp.Expr]:
    """What the columns of the result are that are given this name."""
    return [e.this for e in select.expressions if isinstance(e, exp.Alias) and e.alias.casefold() == name.casefold()]


def _is_made_of(expression: exp.Expr, keys: list[exp.Expr]) -> bool:
    if expression in keys:
        return True
    return type(expression) is not exp.Column and all(_is_made_of(part, keys) for part in expression.iter_expressions())
