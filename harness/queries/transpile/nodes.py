"""Which parsed nodes this package may look at: none that is taken for another, none with an argument it overlooks.

A class of sqlglot's alone does not say what a node means. `concat_ws` is a subclass of `Concat`, and `min(x, 2)`, a
list of two values, is a `Min` with one argument more.
"""

from __future__ import annotations

from sqlglot import exp

from harness.filters.sql_nodes import general_form
from harness.queries.transpile.refusal import refused

_KNOWN_FORMS: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.TryCast,  # `literals` sees through it where it cannot fail; `expressions` tells it from Cast
    }
)
_ARGUMENTS = {"this", "expression", "expressions"}
_MORE_ARGUMENTS: dict[type[exp.Expr], set[str]] = {
    exp.ArgMax: {"count"},
    exp.ArgMin: {"count"},
    exp.Case: {"ifs", "default"},
    exp.Cast: {"to", "format", "default"},
    exp.Count: {"big_int"},
    exp.GroupConcat: {"separator"},
    exp.If: {"true", "false"},
    exp.Lag: {"offset", "default"},
    exp.Lead: {"offset", "default"},
    exp.Max: {"count"},
    exp.Min: {"count"},
    exp.NthValue: {"offset"},
    exp.Quantile: {"quantile"},
    exp.StrPosition: {"substr", "position", "occurrence"},
    exp.Substring: {"start", "length"},
    exp.Trim: {"position"},
    exp.TryCast: {"to", "safe"},
}
_NO_ARGUMENTS = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)


def check(statement: exp.Expr) -> None:
    """Refuses what the rest of the package would take for something else. Raises UnsupportedError."""
    for node in statement.walk():
        kind = type(node)
        if kind not in _KNOWN_FORMS and general_form(kind) is not None:
            raise refused(node)
        if not isinstance(node, exp.Func) or isinstance(node, exp.Unnest):
            continue
        known = set() if kind in _NO_ARGUMENTS else _ARGUMENTS | _MORE_ARGUMENTS.get(kind, set())
        overlooked = [name for name, value in node.args.items() if value and name not in known]
        if overlooked:
            raise refused(node, f"{kind.__name__} with {overlooked[0]}")
