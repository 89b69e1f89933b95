"""Files whose rows are read through Arrow: Avro, ORC, and the Parquet files that an engine would not read right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.engines.data_files import FileName, check_file
from harness.errors import CorruptFileError, HarnessError, UnsupportedError
from harness.files.avro import read_avro
from harness.files.orc import read_orc
from harness.files.variant import variant_to_json
from harness.offsets import offsets_of
from harness.projection import PhysicalSchema, Source, Stored
from harness.schema import Field, VariantType, children
from harness.storage import Storage


def variants(fields: Sequence[Field], sources: Sequence[Source]) -> Iterable[tuple[int, ...]]:
    """The stored columns, at any level, that the table reads as variant: their places from the top level down."""
    for target, source in zip(fields, sources, strict=True):
        if not isinstance(source, Stored):
            continue
        if isinstance(target.type, VariantType):
            yield (source.place,)
        else:
            yield from ((source.place, *inner) for inner in variants(children(target.type), source.parts))


def load(file: FileName, file_format: str, storage: Storage, *, table: str) -> tuple[PhysicalSchema, pa.Table]:
    """All rows of an Avro or ORC file in physical order, and its physical schema.

    Raises:
        UnsupportedError: another format (iceberg 7.5).
        MissingFileError, EncryptedTableError, CorruptFileError: naming the file.
    """
    if file_format not in ("avro", "orc"):
        raise UnsupportedError(
            f"Cannot read file: its format {file_format!r} is not supported",
            cause="UnsupportedFormat",
            table=table,
            file=str(file),
            rule="iceberg 7.5",
        )
    check_file(file, storage, table=table)
    try:
        data = storage.read(file.physical)
        return read_avro(data, file=str(file)) if file_format == "avro" else read_orc(data, file=str(file))
    except HarnessError as error:
        raise error.within(table=table) from error.__cause__


def load_parquet(
    file: FileName,
    schema: PhysicalSchema,
    fields: Sequence[Field],
    sources: Sequence[Source],
    storage: Storage,
    *,
    table: str,
) -> pa.Table:
    """All rows of a Parquet file in physical order; variant columns become JSON text.

    Raises:
        CorruptFileError: the file or a variant value cannot be decoded.
    """
    try:
        rows = pq.read_table(
            pa.BufferReader(storage.read(file.physical)),
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=False,
        )
        if not schema:
            return rows  # a table that is made of no arrays has no rows
        encoded = set(variants(fields, sources))
        columns = [_decode(rows.column(i).combine_chunks(), (i,), encoded) for i in range(len(schema))]
        return pa.table(columns, names=[str(i) for i in range(len(columns))])
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(
            f"Cannot read file: {error}", cause="CorruptDataFile", table=table, file=str(file)
        ) from error
    except HarnessError as error:
        raise error.within(table=table, file=str(file)) from error.__cause__


def _decode(array: pa.Array, place: tuple[int, ...], encoded: set[tuple[int, ...]]) -> pa.Array:
    """`array` with the variant columns in it, at any level, turned into JSON text."""
    if place in encoded:
        return variant_to_json(array)
    if not any(path[: len(place)] == place for path in encoded):
        return array
    if pa.types.is_struct(array.type):
        arrays = [_decode(array.field(i), (*place, i), encoded) for i in range(array.type.num_fields)]
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(arrays, names=names, mask=pc.is_null(array))
    if pa.types.is_map(array.type):
        keys, items = _decode(array.keys, (*place, 0), encoded), _decode(array.items, (*place, 1), encoded)
        return pa.MapArray.from_arrays(offsets_of(array), keys, items, mask=pc.is_null(array))
    return pa.ListArray.from_arrays(
        offsets_of(array), _decode(array.values, (*place, 0), encoded), mask=pc.is_null(array)
    )
