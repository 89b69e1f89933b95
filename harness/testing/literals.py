"""Tables that a test writes as a list of rows, in either format and with any kind of delete.

    literal([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], deletes=[0])

If a job passes its test with every form of the same rows, it does not depend on how its source deletes rows.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from harness.errors import RequestError
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergFile, IcebergTable

Format: TypeAlias = Literal["iceberg", "delta"]
DeleteKind: TypeAlias = Literal["none", "position", "equality", "vector"]
LiteralRow: TypeAlias = Mapping[str, Any]

KINDS: Mapping[str, tuple[str, ...]] = {"iceberg": get_args(DeleteKind), "delta": ("none", "vector")}
"""The kinds of deletes of each format."""
_ICEBERG_WORDS = {
    **{"bigint": "long", "integer": "int", "array": "list"},
    **{"timestamp": "timestamptz", "timestamp_ntz": "timestamp"},
}
_NO_KEYS = ("float", "double", "list", "array", "map", "struct", "variant")
"""Types of columns that equality deletes cannot use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLiteral:
    """A table as a list of rows. `literal` makes one.

    Attributes:
        rows: All rows, including deleted rows. They are written to one file.
        schema: The types by column, in Spark's names.
        format: `iceberg` or `delta`.
        kind: How rows are deleted: `none`, `position`, `equality`, or `vector`.
        deletes: Indexes in `rows` of deleted rows. For `equality`, mappings of columns to the values of deleted rows.
    """

    rows: tuple[LiteralRow, ...]
    schema: Mapping[str, str]
    format: Format = "iceberg"
    kind: DeleteKind = "position"
    deletes: tuple[Any, ...] = ()

    def make(self, directory: Path) -> str:
        """Write the table, and return its location.

        Args:
            directory: The table's new directory.
        """
        if self.format == "delta":
            vectors = {"features": ["deletionVectors"], "configuration": {"delta.enableDeletionVectors": "true"}}
            options: dict[str, Any] = vectors if self.deletes else {}
            delta_table = DeltaTable.create(directory, self.schema, **options)
            if self.rows:
                data = delta_table.write_data(self.rows)
                delta_table.append(data)
                if self.deletes:
                    delta_table.delete(data, self.deletes)
            return str(directory)
        table = _iceberg(self.schema, directory, self.kind)
        if self.rows:
            file = table.write_data(self.rows)
            table.append(file)
            if self.deletes and self.kind != "none":
                table.commit(add=self._delete_files(table, file))
        return str(directory)

    def _delete_files(self, table: IcebergTable, file: IcebergFile) -> Sequence[IcebergFile]:
        if self.kind == "vector":
            return table.write_deletion_vectors({file: self.deletes})
        if self.kind == "equality":
            return [table.write_equality_deletes(list(self.deletes[0]), list(self.deletes))]
        return [table.write_position_deletes([(file, place) for place in self.deletes])]


@dataclass(frozen=True, slots=True, kw_only=True)
class SameRows:
    """A table of exactly these rows, which also holds deleted copies of them.

    For `equality`, the copies are deleted before the rows are added. A reader that applies the deletes to later rows
    loses all rows, and a reader that ignores the deletes returns all rows twice.

    Attributes:
        rows: The rows.
        schema: The types by column, in Spark's names.
        format: `iceberg` or `delta`.
        kind: How the copies are deleted: `none`, `position`, `equality`, or `vector`. With `none` there are no copies.
    """

    rows: tuple[LiteralRow, ...]
    schema: Mapping[str, str]
    format: Format
    kind: DeleteKind

    def make(self, directory: Path) -> str:
        """Write the table, and return its location.

        Args:
            directory: The table's new directory.
        """
        if self.kind != "equality":
            doubled = self.kind in ("position", "vector")
            rows = tuple(row for row in self.rows for _ in range(2 if doubled else 1))
            places = tuple(range(1, len(rows), 2)) if doubled else ()
            kind = self.kind if doubled else "position"
            whole = TableLiteral(rows=rows, schema=self.schema, format=self.format, kind=kind, deletes=places)
            return whole.make(directory)
        keys = [name for name, type_ in self.schema.items() if not type_.startswith(_NO_KEYS)]
        if not keys:
            raise RequestError("Cannot make equality deletes: no column has a type that they support")
        table = _iceberg(self.schema, directory, self.kind)
        if self.rows:
            table.append(table.write_data(self.rows))
            deletes = [{key: row.get(key) for key in keys} for row in self.rows]
            table.commit(add=[table.write_equality_deletes(keys, deletes)])
            table.append(table.write_data(self.rows))
        return str(directory)


def literal(
    rows: Sequence[LiteralRow],
    schema: Mapping[str, str] | None = None,
    *,
    format: Format = "iceberg",
    deletes: Sequence[Any] = (),
    kind: DeleteKind | None = None,
) -> TableLiteral:
    """Return a table as a list of rows, for example to pass to `harness_job.add`.

        harness_job.add({"db.orders": literal([{"id": 1}, {"id": 2}], deletes=[0])})

    Args:
        rows: Mappings by column. A column that a row lacks is null.
        schema: The types by column in Spark's names (`bigint`, `string`, `timestamp`, `array<int>`). None: inferred
            from the values.
        format: `iceberg` or `delta`.
        deletes: Indexes of rows, from 0, that a position delete or deletion vector deletes; or mappings with the same
            columns, whose rows an equality delete deletes. Each must match a row.
        kind: `position`, `vector`, or `equality`, if there are deletes. None: chosen to fit `deletes` and `format`.

    Returns:
        The table, to be written by `make`.

    Raises:
        RequestError: No schema is given and the values do not determine it; the format has no deletes of that kind; a
            delete matches no row; or a kind is given without deletes.
    """
    if isinstance(deletes, str | bytes) or not isinstance(deletes, Sequence):
        raise RequestError(f"Invalid deletes: expected a list, got {deletes!r}")
    by_key = bool(deletes) and isinstance(deletes[0], Mapping)
    fitting: DeleteKind = "equality" if by_key else "vector" if format == "delta" else "position"
    delete_kind = fitting if kind is None else kind
    if kind is not None and (kind != "none") is not bool(deletes):
        raise RequestError(f"Invalid kind {kind!r}: {'there are' if deletes else 'there are no'} deletes")
    effective_kind = delete_kind if deletes else "none"
    if effective_kind not in KINDS.get(format, ()):
        raise RequestError(f"Cannot make a table: {format} has no deletes of the kind {effective_kind!r}")
    types = schema or types_of(rows)
    form, words = (Mapping, "mappings") if delete_kind == "equality" else (int, "row indexes")
    for delete in deletes:
        if not isinstance(delete, form) or isinstance(delete, bool):
            raise RequestError(f"Invalid deletes for {delete_kind}: expected {words}, got {delete!r}")
        if isinstance(delete, Mapping):
            _check_key(delete, deletes[0], rows, types)
        elif not 0 <= delete < len(rows):
            raise RequestError(
                f"Invalid deletes: no row has index {delete}; the table has {len(rows)} rows, numbered from 0"
            )
    return TableLiteral(rows=tuple(rows), schema=types, format=format, kind=delete_kind, deletes=tuple(deletes))


def _check_key(key: LiteralRow, first: LiteralRow, rows: Sequence[LiteralRow], schema: Mapping[str, str]) -> None:
    """Raise RequestError unless an equality delete matches a row and has the same columns as the first one."""
    unknown = [name for name in key if name not in schema]
    if unknown:
        raise RequestError(f"Invalid deletes: {dict(key)!r} names the column {unknown[0]!r}, which the table lacks")
    if set(key) != set(first):
        raise RequestError(f"Invalid deletes: {dict(key)!r} has other columns than {dict(first)!r}")
    if not any(all(row.get(name) == value for name, value in key.items()) for row in rows):
        raise RequestError(f"Invalid deletes: {dict(key)!r} matches no row")


def all_forms(formats: str | Sequence[str] = "all", deletes: str | Sequence[str] = "all") -> list[tuple[str, str]]:
    """Return all combinations of formats and kinds of deletes, as pairs.

    Args:
        formats: Names of formats, or `all`.
        deletes: Kinds of deletes, or `all`. Each format gets the kinds that it has.

    Raises:
        RequestError: A format or kind does not exist, or none of the formats has the kind.
    """
    format_names = tuple(KINDS) if formats == "all" else _split_names(formats)
    kinds = get_args(DeleteKind) if deletes == "all" else _split_names(deletes)
    for name in format_names:
        if name not in KINDS:
            raise RequestError(f"Invalid format {name!r}: expected {' or '.join(KINDS)}")
    for kind in kinds:
        if deletes != "all" and not any(kind in KINDS[name] for name in format_names):
            raise RequestError(f"Invalid kind of deletes {kind!r}: {' and '.join(format_names)} tables do not have it")
    return [(name, kind) for name in format_names for kind in KINDS[name] if kind in kinds]


def types_of(rows: Sequence[LiteralRow]) -> dict[str, str]:
    """Return the types by column, inferred from values.

    Raises:
        RequestError: A column has no values, or its values do not determine a type.
    """
    types = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        kinds = {_type_of(row[name]) for row in rows if row.get(name) is not None}
        if len(kinds) != 1 or None in kinds:
            raise RequestError(f"Cannot infer the type of {name!r} from its values: pass schema=")
        types[name] = str(kinds.pop())
    return types


def _type_of(value: object) -> str | None:
    match value:
        case bool():
            return "boolean"
        case int():
            return "bigint"
        case float():
            return "double"
        case str():
            return "string"
        case bytes():
            return "binary"
        case dt.datetime():
            return "timestamp_ntz" if value.tzinfo is None else "timestamp"
        case dt.date():
            return "date"
        case Decimal():
            exponent = value.as_tuple().exponent
            return f"decimal(38,{-exponent})" if isinstance(exponent, int) and exponent <= 0 else None
        case _:
            return None


def _iceberg(schema: Mapping[str, str], directory: Path, kind: str) -> IcebergTable:
    words = re.compile(r"\b(?:" + "|".join(_ICEBERG_WORDS) + r")\b")
    types = {name: words.sub(lambda word: _ICEBERG_WORDS[word[0]], type_) for name, type_ in schema.items()}
    return IcebergTable.create(directory, types, format_version=3 if kind == "vector" else 2)


def _split_names(names: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(re.split(r"[,\s]+", names.strip(", "))) if isinstance(names, str) else tuple(names)
