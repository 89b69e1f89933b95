"""Which parsed nodes this package may look at: none that is taken for another, none with an argument it overlooks.

A class of sqlglot's alone does not say what a node means. `concat_ws` is a subclass of `Concat`, and `min(x, 2)`, a
list of two values, is a `Min` with one argument more; so is a join by NEAREST a `Join`. An argument that is not listed
here is one that no module looks at.
"""

from __future__ import annotations

from sqlglot import exp

from harness.metadata.filters.literals import general_form
from harness.queries.transpile.spark_text import refused

_KNOWN_FORMS: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.TryCast,  # `literals` sees through it where it cannot fail; `expressions` tells it from Cast
    }
)
_ARGUMENTS = {"this", "expression", "expressions"}
_SET_OPERATION = {"distinct", "by_name", "order", "limit", "offset", "with_"}
_MORE_ARGUMENTS: dict[type[exp.Expr], set[str]] = {
    exp.Alias: {"alias"},
    exp.ArgMax: {"count"},
    exp.ArgMin: {"count"},
    exp.AtTimeZone: {"zone"},
    exp.Between: {"low", "high", "symmetric"},
    exp.CTE: {"alias", "key_expressions", "materialized"},
    exp.Case: {"ifs", "default"},
    exp.Cast: {"to", "format", "default"},
    exp.Column: {"table", "db", "catalog"},
    exp.Comprehension: {"iterator", "condition", "position"},
    exp.Count: {"big_int"},
    exp.DPipe: {"safe"},
    exp.DataType: {"nested", "values"},
    exp.Distinct: {"on"},
    exp.Except: _SET_OPERATION,
    exp.Fetch: {"direction", "count", "limit_options"},
    exp.Group: {"all"},
    exp.GroupConcat: {"separator"},
    exp.Identifier: {"quoted"},
    exp.If: {"true", "false"},
    exp.ILike: {"negate"},
    exp.In: {"field", "query", "unnest"},
    exp.Intersect: _SET_OPERATION,
    exp.Interval: {"unit", "fraction_in_string"},
    exp.Join: {"side", "kind", "method", "on", "using"},
    exp.Lag: {"offset", "default"},
    exp.Lateral: {"alias"},
    exp.Lead: {"offset", "default"},
    exp.Like: {"negate"},
    exp.Limit: {"limit_options", "offset"},
    exp.LimitOptions: {"rows", "percent", "with_ties"},
    exp.Literal: {"is_string"},
    exp.Max: {"count"},
    exp.Min: {"count"},
    exp.NthValue: {"offset"},
    exp.Ordered: {"desc", "nulls_first", "with_fill"},
    exp.Pivot: {
        *("alias", "columns", "fields", "group", "include_nulls", "into", "pivot_column_naming", "unpivot", "using"),
        "with_",
    },
    exp.PivotAlias: {"alias"},
    exp.Quantile: {"quantile"},
    exp.Select: {
        *("from_", "joins", "where", "group", "having", "qualify", "windows", "distinct", "order", "limit", "offset"),
        "with_",
    },
    exp.Slice: {"step"},
    exp.Star: {"except_", "replace", "rename"},
    exp.StrPosition: {"substr", "position", "occurrence"},
    exp.Subquery: {"alias", "joins", "pivots", "order", "limit", "offset", "with_"},
    exp.Substring: {"start", "length"},
    exp.Table: {"alias", "db", "catalog", "joins", "pivots"},
    exp.TableAlias: {"columns"},
    exp.Trim: {"position"},
    exp.TryCast: {"to", "safe"},
    exp.Union: _SET_OPERATION,
    exp.Unnest: {"alias", "offset"},
    exp.Values: {"alias"},
    exp.Window: {"partition_by", "order", "over", "spec", "alias", "first"},
    exp.WindowSpec: {"kind", "start", "start_side", "end", "end_side", "exclude"},
    exp.With: {"recursive"},
}
_NO_ARGUMENTS = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)


def check(statement: exp.Expr) -> None:
    """Refuses what the rest of the package would take for something else. Raises UnsupportedError."""
    for node in statement.walk():
        kind = type(node)
        if kind not in _KNOWN_FORMS and general_form(kind) is not None:
            raise refused(node)
        known = set() if kind in _NO_ARGUMENTS else _ARGUMENTS | _MORE_ARGUMENTS.get(kind, set())
        overlooked = [name for name, value in node.args.items() if value and name not in known]
        if overlooked:
            word = None if isinstance(node, exp.Func) else overlooked[0].strip("_").replace("_", " ").upper()
            raise refused(node, word)
