"""Avro data files: physical schema and all rows as Arrow. Delete files in Avro are read the same way.

Positions are ordinals over all blocks (iceberg 7.3), so rows come whole and in file order.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa

from harness.errors import CorruptFileError, UnsupportedError
from harness.files.avro_schema import Node, parse_writer_schema
from harness.files.ocf import corrupt, count_records, read_header, with_schema
from harness.physical import PhysicalSchema
from harness.schema import DecimalType


def read_avro(data: bytes, *, file: str) -> tuple[PhysicalSchema, pa.Table]:
    """The columns of an Avro container and all its rows, in file order.

    The table's columns are the schema's, in order and by name. Ids come from `field-id`, `element-id`, `key-id` and
    `value-id`. Values keep their stored units; enums come as text, a UUID in fixed bytes as Arrow's uuid, a UUID in
    text as text.

    Raises:
        CorruptFileError: not an Avro container, cut, or damaged.
        EncryptedTableError: an encrypted stream.
        UnsupportedError: a codec outside iceberg 2.14, a union other than of null and one type, a recursive type (7.3).
    """
    header = read_header(data, file=file)
    root = parse_writer_schema(header.schema, file=file)
    expected = count_records(data, header, file=file)
    records = _decode(with_schema(data, header, root.plain), file)
    if len(records) != expected:
        raise corrupt(f"its blocks claim {expected} records and hold {len(records)}", file)
    try:
        array = _to_arrow(root, records)
    except CorruptFileError as error:
        raise error.within(file=file) from error.__cause__
    except (pa.ArrowException, OverflowError) as error:
        raise corrupt(f"a value does not fit its type: {error}", file) from error
    return root.fields(), pa.Table.from_batches([pa.RecordBatch.from_struct_array(array)])


def schema_of_avro(head: bytes, *, file: str) -> PhysicalSchema:
    """The columns of an Avro container, from its first bytes, which must hold the whole header; no record is read.

    Raises:
        CorruptFileError: not an Avro container, or `head` ends inside its header.
        EncryptedTableError, UnsupportedError: as `read_avro`.
    """
    return parse_writer_schema(read_header(head, file=file).schema, file=file).fields()


def _decode(data: bytes, file: str) -> list[Any]:
    try:
        return list(fastavro.reader(io.BytesIO(data)))
    except ImportError as error:
        raise _lacks_codec(error, file) from error
    except ValueError as error:
        # A missing codec library is a ValueError too, and so is undecodable text.
        if "codec is supported but you need to install" in str(error):
            raise _lacks_codec(error, file) from error
        raise corrupt(str(error), file) from error
    except Exception as error:
        # The decoder runs on damaged bytes: codecs and its own C code raise what they like.
        raise corrupt(f"{type(error).__name__}: {error}", file) from error


def _lacks_codec(error: Exception, file: str) -> UnsupportedError:
    return UnsupportedError(
        f"Cannot decompress Avro file: {error}", cause="UnsupportedCodec", file=file, rule="iceberg 2.14"
    )


def _to_arrow(node: Node, values: Sequence[Any]) -> pa.Array:
    match node.shape:
        case "value":
            return _numbers(node, values)
        case "enum":
            return pa.array([None if v is None else _symbol(node, v) for v in values], pa.string())
        case "decimal":
            return _decimals(node, values)
        case "struct":
            return _struct(node, values)
        case "list":
            offsets, flat = _flattened(values)
            return pa.ListArray.from_arrays(offsets, _to_arrow(node.children[0], flat), type=node.arrow)
        case "map":
            offsets, flat = _flattened([None if v is None else list(v.items()) for v in values])
            return _map(node, offsets, [key for key, _ in flat], [value for _, value in flat])
        case "pairs":
            offsets, flat = _flattened(values)
            return _map(node, offsets, [pair["f0"] for pair in flat], [pair["f1"] for pair in flat])


def _numbers(node: Node, values: Sequence[Any]) -> pa.Array:
    """Values as they are; dates, times and timestamps through their integers, since they may lie in any year."""
    storage = {pa.types.is_date32: pa.int32(), pa.types.is_time32: pa.int32(), pa.types.is_time64: pa.int64()}
    storage[pa.types.is_timestamp] = pa.int64()
    for test, integers in storage.items():
        if test(node.arrow):
            return pa.array(values, integers).view(node.arrow)
    return pa.array(values, node.arrow)


def _symbol(node: Node, index: int) -> str:
    if not 0 <= index < len(node.symbols):
        raise CorruptFileError(
            f"Cannot decode Avro file: enum symbol {index} of {len(node.symbols)}; restore it", cause="CorruptDataFile"
        )
    return node.symbols[index]


def _decimals(node: Node, values: Sequence[bytes | None]) -> pa.Array:
    """Big-endian two's complement bytes of any length; a value with too many digits is damage."""
    assert isinstance(node.type, DecimalType)
    limit = 10**node.type.precision
    unscaled = [None if v is None else int.from_bytes(v, "big", signed=True) for v in values]
    if any(v is not None and abs(v) >= limit for v in unscaled):
        raise CorruptFileError(
            f"Cannot decode Avro file: a value has more digits than {node.type}; restore it", cause="CorruptDataFile"
        )
    data = b"".join((v or 0).to_bytes(16, "little", signed=True) for v in unscaled)
    return pa.Array.from_buffers(node.arrow, len(unscaled), [_validity(unscaled), pa.py_buffer(data)])


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    """A bitmap of the values that are not null; None if all are there."""
    if all(v is not None for v in values):
        return None
    return pa.array([v is not None for v in values], pa.bool_()).buffers()[1]


def _struct(node: Node, values: Sequence[Any]) -> pa.Array:
    columns = [
        _to_arrow(child, [None if v is None else v[f"f{index}"] for v in values])
        for index, child in enumerate(node.children)
    ]
    return pa.Array.from_buffers(node.arrow, len(values), [_validity(values)], children=columns)


def _flattened(values: Sequence[Any]) -> tuple[pa.Array, list[Any]]:
    """Offsets, null where the value is, and the items of all values."""
    offsets: list[int | None] = []
    flat: list[Any] = []
    for value in values:
        offsets.append(None if value is None else len(flat))
        flat.extend(value or ())
    return pa.array([*offsets, len(flat)], pa.int32()), flat


def _map(node: Node, offsets: pa.Array, keys: list[Any], values: list[Any]) -> pa.Array:
    key, value = node.children
    if any(k is None for k in keys):
        raise CorruptFileError("Cannot decode Avro file: a map's key is null; restore it", cause="CorruptDataFile")
    return pa.MapArray.from_arrays(offsets, _to_arrow(key, keys), _to_arrow(value, values))
