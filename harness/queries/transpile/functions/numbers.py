"""Functions of numbers."""

from __future__ import annotations

from harness.model.schema import DecimalType
from harness.queries.transpile import spark_text
from harness.queries.transpile.functions.parameters import is_number, whole
from harness.queries.transpile.functions.registry import Call, Function, Kind
from harness.queries.transpile.values import HUGE, Typed


def _abs(call: Call) -> Typed | None:
    value = call.value(0)
    if len(call.arguments) != 1 or not is_number(value.type) or value.type == HUGE:
        raise call.refused(f"abs of {value.type}")
    return Typed(f"ABS({value.sql})", value.type)


def _round(call: Call) -> Typed | None:
    """Decimals only: Spark rounds the shortest text of a double, DuckDB the double itself."""
    value = call.value(0)
    places = whole(call.value(1)) if len(call.arguments) == 2 else 0
    if not isinstance(value.type, DecimalType) or places is None or not 0 <= places < value.type.scale:
        raise call.refused(f"round of {value.type}")
    type_ = DecimalType(value.type.precision, places)
    return Typed(f"CAST(ROUND({value.sql}, {places}) AS {spark_text.type_name(type_)})", type_)


FUNCTIONS = (
    Function(
        names=("abs", "@"),
        kind=Kind.NUMBERS,
        lowering=_abs,
        written="ABS",
        draws=("abs({double})", "abs({decimal})", "abs({int})"),
    ),
    Function(
        names=("round",),
        kind=Kind.NUMBERS,
        lowering=_round,
        written="ROUND",
        agree="decimals, to fewer digits",
        outside="refused",
        draws=("round({decimal}, 1)",),
    ),
)
