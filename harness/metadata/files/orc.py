"""ORC data files: the physical schema and all rows as Arrow. Delete files in ORC are read the same way.

pyarrow returns the attributes of types as Arrow field metadata at all levels, so ids do not require parsing the footer.
It returns all timestamps in nanoseconds, and refuses a file with a timestamp outside of the years 1677 to 2262. Harness
therefore refuses such files, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.orc

from harness.errors import CorruptFileError, UnsupportedError
from harness.metadata.files.avro_values import decode_unsigned
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import STORED_LIST, STORED_MAP, STORED_STRUCT, PhysicalField, PhysicalSchema
from harness.storage.limits import DEFAULT, Limits


def read_orc(data: bytes, *, file: str, limits: Limits = DEFAULT) -> tuple[PhysicalSchema, pa.Table]:
    """Read the columns and all rows of an ORC file, in file order.

    The table has the file's columns, in order and with their names. Ids are read from the attribute `iceberg.id`. The
    contents of binary and long columns are determined by `iceberg.binary-type` and `iceberg.long-type` (iceberg 7.4).
    Timestamps are in nanoseconds: an ORC `timestamp` is the writer's wall clock, a `timestamp_instant` is in UTC. A
    UUID is returned as 16 bytes.

    Raises:
        CorruptFileError: The file is not an ORC file, is truncated or damaged, or has a struct with two columns of
            one name.
        UnsupportedError: pyarrow cannot return a value exactly, for example a timestamp outside of the years 1677 to
            2262.
        LimitError: The file has more than `limits.rows` rows.
    """
    opened = _call_pyarrow(lambda: pyarrow.orc.ORCFile(pa.BufferReader(data)), file)
    limits.check("rows", opened.nrows, "rows", file=file)
    table = _call_pyarrow(opened.read, file)
    if not table.schema:  # pyarrow loses the rows of a file without columns
        return (), pa.table({"": pa.nulls(opened.nrows)}).drop_columns([""])
    _check_names(table.schema, file)
    fields = tuple(_physical_field(f) for f in table.schema)
    schema = pa.schema([_exact_field(f) for f in table.schema])
    try:
        table = table.cast(schema)
        table.validate(full=True)
    except pa.ArrowException as error:
        raise _corrupt(str(error), file) from error
    return fields, table


def schema_of_orc(source: IO[bytes], *, file: str) -> tuple[PhysicalSchema, int]:
    """Return the columns of an ORC file and its number of rows.

    Only the end of `source`, which must be seekable, is read.

    Raises:
        CorruptFileError, UnsupportedError: As for `read_orc`, except errors in the rows themselves.
    """
    opened = _call_pyarrow(lambda: pyarrow.orc.ORCFile(pa.PythonFile(source, mode="r")), file)
    schema = _call_pyarrow(lambda: opened.schema, file)
    _check_names(schema, file)
    return tuple(_physical_field(f) for f in schema), int(opened.nrows)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcTraits:
    """Facts about an ORC file that readers need but that the physical schema does not contain.

    Attributes:
        pads_text: True if the file has a column of type `char`, whose values are padded with blanks to its length.
    """

    pads_text: bool


def orc_traits(source: IO[bytes], *, file: str) -> OrcTraits:
    """Return the traits of an ORC file from its footer.

    Raises:
        CorruptFileError, UnsupportedError: As for `schema_of_orc`.
    """
    opened = _call_pyarrow(lambda: pyarrow.orc.ORCFile(pa.PythonFile(source, mode="r")), file)
    return _call_pyarrow(lambda: _traits(opened.reader.serialized_file_tail()), file)


def _traits(tail: bytes) -> OrcTraits:
    footer = _parse_message(_parse_message(tail)[_TAIL_FOOTER][0])
    return OrcTraits(pads_text=any(_parse_message(t)[_TYPE_KIND][0] == _CHAR for t in footer.get(_FOOTER_TYPES, ())))


# Field numbers and enum values in orc_proto.proto.
_TAIL_FOOTER, _FOOTER_TYPES, _TYPE_KIND = 2, 4, 1
_CHAR = 17


def _parse_message(data: bytes) -> dict[int, list[Any]]:
    """Return the fields of a Protocol Buffers message by number, as undecoded numbers and bytes."""
    fields: dict[int, list[Any]] = {}
    position = 0
    while position < len(data):
        key, position = decode_unsigned(data, position)
        values, wire = fields.setdefault(key >> 3, []), key & 7
        if wire == 0:
            value, position = decode_unsigned(data, position)
            values.append(value)
            continue
        width = {1: 8, 5: 4}.get(wire)
        if width is None:
            width, position = decode_unsigned(data, position)
        values.append(data[position : position + width])
        position += width
    return fields


_T = TypeVar("_T")


def _call_pyarrow(read: Callable[[], _T], file: str) -> _T:
    try:
        return read()
    except pa.ArrowNotImplementedError as error:
        raise _unsupported(str(error), file) from error
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
        if "out of range for nanosecond" in str(error):
            raise _unsupported("it has a timestamp outside the years 1677 to 2262", file) from error
        raise _corrupt(str(error), file) from error


def _check_names(fields: pa.Schema | pa.StructType, file: str) -> None:
    names = _call_pyarrow(lambda: [f.name for f in fields], file)  # pyarrow decodes the names here
    if len(set(names)) < len(names):
        raise _corrupt(f"two of its columns have the same name: {', '.join(names)}", file)
    for f in fields:
        _check_nested(f.type, file)


def _check_nested(type_: pa.DataType, file: str) -> None:
    if pa.types.is_struct(type_):
        _check_names(type_, file)
    elif pa.types.is_nested(type_):
        for place in range(type_.num_fields):
            _check_nested(type_.field(place).type, file)


_ID, _LENGTH = re.compile(r"-?[0-9]{1,10}"), re.compile(r"[0-9]{1,9}")


def _physical_field(field: pa.Field) -> PhysicalField:
    type_ = field.type
    stored: dt.Type
    children: tuple[pa.Field, ...] = ()
    if pa.types.is_struct(type_):
        stored, children = STORED_STRUCT, tuple(type_.field(i) for i in range(type_.num_fields))
    elif pa.types.is_list(type_):
        stored, children = STORED_LIST, (type_.value_field,)
    elif pa.types.is_map(type_):
        stored, children = STORED_MAP, (type_.key_field, type_.item_field)
    else:
        stored = _single_type(field)
    text = _attribute(field, "iceberg.id")
    id_ = int(text) if text is not None and _ID.fullmatch(text) else None
    return PhysicalField(name=field.name, id=id_, type=stored, children=tuple(map(_physical_field, children)))


def _attribute(field: pa.Field, name: str) -> str | None:
    value = (field.metadata or {}).get(name.encode())
    return None if value is None else value.decode(errors="replace")


_SINGLE: tuple[tuple[Callable[[pa.DataType], bool], dt.Type], ...] = (
    (pa.types.is_boolean, dt.BooleanType()),
    (pa.types.is_int8, dt.IntegerType(8)),
    (pa.types.is_int16, dt.IntegerType(16)),
    (pa.types.is_int32, dt.IntegerType(32)),
    (pa.types.is_int64, dt.IntegerType(64)),
    (pa.types.is_float32, dt.FloatType(32)),
    (pa.types.is_float64, dt.FloatType(64)),
    (pa.types.is_string, dt.StringType()),
    (pa.types.is_date32, dt.DateType()),
)


def _single_type(field: pa.Field) -> dt.Type:
    type_ = field.type
    if pa.types.is_binary(type_):
        return _binary_type(field)
    if pa.types.is_int64(type_) and (_attribute(field, "iceberg.long-type") or "").upper() == "TIME":
        return dt.TimeType("us")
    if pa.types.is_timestamp(type_):
        unit: Literal["ms", "us", "ns"] = type_.unit
        return dt.TimestampType(unit, type_.tz is not None)
    if pa.types.is_decimal128(type_):
        return dt.DecimalType(type_.precision, type_.scale)
    return next((single for test, single in _SINGLE if test(type_)), dt.OpaqueType(str(type_)))


def _binary_type(field: pa.Field) -> dt.Type:
    length = _attribute(field, "iceberg.length")
    match (_attribute(field, "iceberg.binary-type") or "").upper():
        case "UUID":
            return dt.FixedType(16)
        case "FIXED" if length is not None and _LENGTH.fullmatch(length):
            return dt.FixedType(int(length))
        case "GEOMETRY":
            return dt.GeometryType()
        case "GEOGRAPHY":
            return dt.GeographyType()
        case _:
            return dt.BinaryType()


def _exact_field(field: pa.Field) -> pa.Field:
    """Return the field without metadata, with a type that reflects the attributes of binary and long columns."""
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_exact_field(type_.field(i)) for i in range(type_.num_fields)])
    elif pa.types.is_list(type_):
        type_ = pa.list_(_exact_field(type_.value_field))
    elif pa.types.is_map(type_):
        type_ = pa.map_(_exact_field(type_.key_field), _exact_field(type_.item_field))
    else:
        match _single_type(field):
            case dt.FixedType(length=length):
                type_ = pa.binary(length)
            case dt.TimeType():
                type_ = pa.time64("us")
            case _:
                pass
    return pa.field(field.name, type_, field.nullable)


def _corrupt(reason: str, file: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot decode ORC file: {reason}; restore it", cause="CorruptDataFile", file=file)


def _unsupported(reason: str, file: str) -> UnsupportedError:
    return UnsupportedError(
        f"Cannot read ORC file: {reason}; rewrite it as Parquet", cause="UnsupportedType", file=file, rule="iceberg 7.4"
    )
