"""UNNEST in the projection of a SELECT: rows for the elements of lists, columns for the fields of structs.

Several lists of one row go side by side, the shorter ones padded with nulls; a row whose lists are all empty or null
gives none. The rows come after those of FROM, and before WHERE has left any out, which reads none of their elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from harness.metadata.model.schema import ListType, StructType, Type
from harness.queries.transpile import spark_text
from harness.queries.transpile.expressions import Expressions
from harness.queries.transpile.spark_text import refused
from harness.queries.transpile.values import Typed


def is_used(select: exp.Select) -> bool:
    """Whether a SELECT unnests something in its projection."""
    return any(True for _ in _calls(select))


def _calls(select: exp.Select) -> Iterator[exp.Explode]:
    for item in select.expressions:
        for call in item.find_all(exp.Explode):
            if call.find_ancestor(exp.Select) is select:
                yield call


def works_on_results(select: exp.Select) -> bool:
    """Whether UNNEST works on what the groups or windows of the SELECT give, and not on the rows that it reads.

    Raises:
        UnsupportedError: it works on both.
    """
    if not is_used(select):
        return False
    windows = (w for item in select.expressions for w in item.find_all(exp.Window))
    with_windows = select.args.get("qualify") is not None or next(windows, None) is not None
    group = select.args.get("group")
    aggregated = any(isinstance(n, exp.AggFunc) for item in select.expressions for n in item.walk())
    if group is None and not aggregated:
        return with_windows
    keys = [] if group is None else [key.sql("duckdb").casefold() for key in group.expressions]
    are_keys = set()
    for place, item in enumerate(select.expressions, 1):
        named = (item.alias.casefold(), item.unalias().sql("duckdb").casefold(), str(place))
        if item.find(exp.Explode) is not None:
            are_keys.add(any(name in keys for name in named))
    if True not in are_keys:
        return True
    if with_windows or False in are_keys:
        raise refused(select, "UNNEST as a key and of what is grouped", "unnest in a query around it")
    return False


@dataclass(slots=True)
class Unnests:
    """The elements that one SELECT unnests.

    alias: what Spark calls the relation of them. several: whether there may be more than one list.
    """

    alias: str
    several: bool
    lists: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, select: exp.Select, number: int) -> Unnests:
        """Those of a SELECT."""
        return cls(f"u{number}", len({call.this for call in _calls(select)}) > 1)

    def element(self, expressions: Expressions, node: exp.Explode) -> Typed:
        """What stands for a call. Raises UnsupportedError."""
        _is_recursive(node)
        listed = expressions.translate(node.this)
        if not isinstance(listed.type, ListType):
            raise refused(node, f"unnest of {listed.type} inside of an expression")
        if listed.sql not in self.lists:
            self.lists.append(listed.sql)
        sql = f"TRY_ELEMENT_AT({listed.sql}, {self.alias}.e)" if self.several else f"{self.alias}.e"
        return Typed(sql, listed.type.element.type)

    def clause(self, source: str) -> str:
        """What follows FROM and its joins, which are `source`; empty where nothing is unnested."""
        if not self.lists:
            return ""
        call = self.lists[0]
        if self.several:
            sizes = [f"COALESCE(SIZE({listed}), 0)" for listed in self.lists]
            most = sizes[0] if len(sizes) == 1 else f"GREATEST({', '.join(sizes)})"
            call = f"CASE WHEN {most} > 0 THEN SEQUENCE(1, {most}) END"
        return f"{' CROSS JOIN LATERAL' if source else ' FROM'} EXPLODE({call}) AS {self.alias}(e)"


def columns(expressions: Expressions, node: exp.Explode) -> list[tuple[str | None, Typed]]:
    """The columns for a call that is an item of the projection. Raises UnsupportedError."""
    value, recursive = expressions.translate(node.this), _is_recursive(node)
    is_list = isinstance(value.type, ListType)
    if is_list:
        value = expressions.translate(exp.Explode(this=node.this))
    elif not isinstance(value.type, StructType):
        raise refused(node, f"unnest of {value.type}")
    if not isinstance(value.type, StructType) or (is_list and not recursive):
        if recursive and _holds_list(value.type):
            raise refused(node, f"a recursive unnest of {value.type}")
        return [(None, value)]
    return _fields(value, node, recursive=recursive)


def _fields(value: Typed, node: exp.Explode, *, recursive: bool) -> list[tuple[str | None, Typed]]:
    assert isinstance(value.type, StructType)
    found: list[tuple[str | None, Typed]] = []
    for item in value.type.fields:
        inner = Typed(f"({value.sql}).{spark_text.name(item.name)}", item.type)
        if recursive and _holds_list(item.type):
            raise refused(node, f"a recursive unnest of {value.type}")
        if recursive and isinstance(item.type, StructType):
            found += _fields(inner, node, recursive=True)
        else:
            found.append((item.name, inner))
    return found


def _holds_list(type_: Type) -> bool:
    match type_:
        case ListType():
            return True
        case StructType(fields=fields):
            return any(_holds_list(f.type) for f in fields)
        case _:
            return False


def _is_recursive(node: exp.Explode) -> bool:
    """Whether the call says `recursive := true`; it may say nothing else."""
    said = [(item.this.name.lower(), item.expression) for item in node.expressions if isinstance(item, exp.PropertyEQ)]
    if len(said) < len(node.expressions) or any(
        name != "recursive" or not isinstance(value, exp.Boolean) for name, value in said
    ):
        raise refused(node, "this unnest")
    return bool(said) and bool(said[0][1].this)
