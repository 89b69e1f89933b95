"""`readable_metrics`: what is known of each column of a file, by the column's name, bounds as values of its type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.iceberg.values import decode_bound
from harness.metadata_tables.columns import values_of
from harness.model.arrow_values import from_numpy, to_numpy
from harness.model.schema import Field, Schema, Type, children

METRICS = "readable_metrics"
_COUNTS = {
    "column_size": "column_sizes",
    "value_count": "value_counts",
    "null_value_count": "null_value_counts",
    "nan_value_count": "nan_value_counts",
}
_BOUNDS = {"lower_bound": "lower_bounds", "upper_bound": "upper_bounds"}


def metrics_field(schema: Schema) -> pa.Field:
    """The column of that name: a struct with one of metrics for each column that holds no others."""
    parts = [pa.field(name, _metrics(field.type)) for name, field in _leaves(schema)]
    return pa.field(METRICS, pa.struct(parts) if parts else pa.null())


def metrics_of(files: pa.Table, schema: Schema) -> pa.Array:
    """The column for files whose statistics are there, as maps by field id."""
    field = metrics_field(schema)
    if not schema.fields or not len(files):
        return pa.nulls(len(files), field.type)
    columns = {name: _Maps.of(files.column(name)) for name in (*_COUNTS.values(), *_BOUNDS.values())}
    found = [_of_column(columns, leaf) for _, leaf in _leaves(schema)]
    return pa.StructArray.from_arrays(found, fields=list(field.type))


@dataclass(frozen=True, slots=True)
class _Maps:
    """Maps by field id, item by item. `pyarrow.compute.map_lookup` would go through all of them for each id.

    owners: which map each item is of. size: how many maps there are.
    """

    keys: npt.NDArray[np.int32]
    items: pa.Array
    owners: npt.NDArray[np.int64]
    size: int

    @staticmethod
    def of(column: pa.ChunkedArray) -> _Maps:
        maps = pa.concat_arrays(column.chunks)
        offsets = to_numpy(maps.offsets)
        owners = np.repeat(np.arange(len(maps)), np.diff(offsets))
        items = slice(int(offsets[0]), int(offsets[-1]))
        return _Maps(to_numpy(maps.keys)[items], maps.items[items], owners, len(maps))

    def values(self, key: int) -> pa.Array:
        """The value of a key in each map; null where there is none."""
        hits = np.flatnonzero(self.keys == key)
        places = np.full(self.size, -1, dtype=np.int64)
        places[self.owners[hits]] = hits
        return self.items.take(from_numpy(places, missing=places < 0))


def _of_column(columns: dict[str, _Maps], leaf: Field) -> pa.Array:
    known = {name: maps.values(leaf.id) for name, maps in columns.items()}
    type_ = _metrics(leaf.type)
    counts = [known[name] for name in _COUNTS.values()]
    return pa.StructArray.from_arrays(
        [*counts, *(_decoded(known[name], leaf.type) for name in _BOUNDS.values())], fields=list(type_)
    )


def _decoded(encoded: pa.Array, type_: Type) -> pa.Array:
    """Bounds as values; null where there is none, or it says nothing. Each of several equal ones is decoded once."""
    distinct = encoded.dictionary_encode()
    values = [None if data is None else decode_bound(type_, data) for data in distinct.dictionary.to_pylist()]
    return values_of(values, type_).take(distinct.indices)


def _metrics(type_: Type) -> pa.DataType:
    bound = values_of([], type_).type
    counts = [pa.field(name, pa.int64()) for name in _COUNTS]
    return pa.struct([*counts, *(pa.field(name, bound) for name in _BOUNDS)])


def _leaves(schema: Schema) -> Sequence[tuple[str, Field]]:
    """Columns without columns in them, by their paths with dots. DuckDB has no two of one name: others get their id."""
    found = [(".".join(path), field) for path, field in schema.walk() if not children(field.type)]
    names = [name.casefold() for name, _ in found]
    return [(name if names.count(name.casefold()) == 1 else f"{name}_{field.id}", field) for name, field in found]
