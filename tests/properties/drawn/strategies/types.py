"""Column types of both formats: the types that each format version allows, and their texts in scenarios."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from drawn.models.model import TableKind
from harness.metadata.model import schema as dt

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

_SHARED: Final[tuple[dt.Type, ...]] = (
    dt.IntegerType(64),
    dt.StringType(),
    dt.IntegerType(32),
    dt.BooleanType(),
    dt.DateType(),
    dt.DecimalType(9, 2),
    dt.DecimalType(18, 4),
    dt.DecimalType(38, 10),
    dt.FloatType(64),
    dt.FloatType(32),
    dt.TimestampType(),
    dt.TimestampType(utc=True),
    dt.BinaryType(),
)
_ICEBERG: Final[tuple[dt.Type, ...]] = (dt.TimeType(), dt.UuidType(), dt.FixedType(4))
_ICEBERG_3: Final[tuple[dt.Type, ...]] = (*(dt.TimestampType("ns", utc=u) for u in (False, True)), dt.GeometryType())
_DELTA: Final[tuple[dt.Type, ...]] = (dt.IntegerType(8), dt.IntegerType(16))
_KEYS: Final[tuple[dt.Type, ...]] = (dt.StringType(), dt.IntegerType(32), dt.DateType())

NAMES: Final[tuple[str, ...]] = ("id", "a", "b", "select", "naïve", "x y", "Value", "c", "d", "e", "f", "g", "h")
"""Names of columns, which differ even if case is ignored."""
_INNER: Final[tuple[str, ...]] = ("p", "q", "r")


def primitive_types(kind: TableKind) -> tuple[dt.Type, ...]:
    """Return the primitive types of a table's columns, simplest first, without `unknown`, which structs may not
    contain.
    """
    match kind:
        case "delta":
            return (*_SHARED, *_DELTA)
        case "iceberg-3":
            return (*_SHARED, *_ICEBERG, *_ICEBERG_3)
        case "iceberg-1" | "iceberg-2":
            return (*_SHARED, *_ICEBERG)


def types(kind: TableKind, *, depth: int = 2) -> st.SearchStrategy[dt.Type]:
    """Return a strategy for column types. Nested fields have the id 0. `depth` limits nesting."""
    primitives = st.sampled_from(primitive_types(kind))
    if depth == 0:
        return primitives
    inner = types(kind, depth=depth - 1)
    structs = st.lists(inner, min_size=1, max_size=3).map(_struct)
    lists = inner.map(lambda t: dt.ListType(dt.Field(id=0, name="element", type=t)))
    maps = st.builds(_map, st.sampled_from(_KEYS), inner)
    return st.one_of(primitives, primitives, primitives, structs, lists, maps)


def column_types(kind: TableKind) -> st.SearchStrategy[dt.Type]:
    """Return a strategy for types of top-level columns: `types`, and occasionally a type with null values only."""
    always_null: st.SearchStrategy[dt.Type] = st.just(dt.UnknownType())
    allowed = types(kind)
    return allowed if kind in ("iceberg-1", "iceberg-2") else st.one_of(*[allowed] * 9, always_null)


def type_text(kind: TableKind, type_: dt.Type) -> str:
    """Return the text of the type in a scenario of the format."""
    match type_:
        case dt.StructType(fields=fields):
            return f"struct<{', '.join(f'{f.name}: {type_text(kind, f.type)}' for f in fields)}>"
        case dt.ListType(element=element):
            return f"list<{type_text(kind, element.type)}>"
        case dt.MapType(key=key, value=value):
            return f"map<{type_text(kind, key.type)}, {type_text(kind, value.type)}>"
        case dt.TimestampType(utc=utc) if kind == "delta":
            return "timestamp" if utc else "timestamp_ntz"
        case dt.UnknownType() if kind == "delta":
            return "void"
        case _:
            return str(type_)


def schemas(kind: TableKind) -> st.SearchStrategy[dict[str, str]]:
    """Return a strategy for schemas in the form of a scenario's `schema`. The first column, `id`, is a long."""
    text = column_types(kind).map(lambda t: type_text(kind, t))
    more = st.dictionaries(st.sampled_from(NAMES[1:]), text, min_size=1, max_size=3)
    return more.map(lambda columns: {"id": "long", **columns})


def widenings(kind: TableKind, type_: dt.Type) -> tuple[dt.Type, ...]:
    """Return the types to which a column of this type may be widened in the format.

    Spec: Iceberg, "Schema Evolution"; Delta, "Type Widening".
    """
    match type_:
        case dt.DecimalType(precision=p, scale=s) if kind == "delta":
            return tuple(dt.DecimalType(p + a, s + b) for a, b in ((2, 0), (4, 2)) if p + a <= 38)
        case dt.DecimalType(precision=p, scale=s):
            return (dt.DecimalType(p + 2, s),) if p + 2 <= 38 else ()
        case dt.FloatType(bits=32):
            return (dt.FloatType(64),)
        case dt.IntegerType(bits=bits) if kind == "delta":
            return _delta_integers(bits)
        case dt.IntegerType(bits=32):
            return (dt.IntegerType(64),)
        case dt.DateType() if kind == "delta":
            return (dt.TimestampType(),)
        case _:
            return ()


def _delta_integers(bits: int) -> tuple[dt.Type, ...]:
    wider: list[dt.Type] = [dt.IntegerType(more) for more in (16, 32, 64) if more > bits]
    decimals: list[dt.Type] = [dt.DecimalType(20, 0)] if bits == 64 else [dt.DecimalType(10, 0), dt.DecimalType(12, 2)]
    return (*wider, *decimals, *([] if bits == 64 else [dt.FloatType(64)]))


def _struct(inner: list[dt.Type]) -> dt.Type:
    return dt.StructType(tuple(dt.Field(id=0, name=n, type=t) for n, t in zip(_INNER, inner, strict=False)))


def _map(key: dt.Type, value: dt.Type) -> dt.Type:
    return dt.MapType(dt.Field(id=0, name="key", type=key, required=True), dt.Field(id=0, name="value", type=value))
