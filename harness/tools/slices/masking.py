"""Columns of data files with pseudonyms in place of their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UnsupportedError
from harness.metadata.model.arrow_values import children_of, from_numpy, is_rebuilt, to_numpy, with_children
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
)
from harness.tools.slices.pseudonyms import Pseudonyms

_ID = b"PARQUET:field_id"
OLD_INT96 = b"org.apache.spark.legacyINT96"
"""In the footer of a file whose INT96 are in the old calendar."""
_OLD_CALENDARS = (b"org.apache.spark.legacyDateTime", OLD_INT96)


@dataclass(frozen=True, slots=True)
class Mask:
    """What becomes of the values of a slice that is anonymised."""

    pseudonyms: Pseudonyms

    def column(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """The column with other values; nulls, lengths of lists and the type stay."""
        return pa.chunked_array([self._array(chunk) for chunk in values.chunks], values.type)

    def _array(self, array: pa.Array) -> pa.Array:
        if isinstance(array, pa.ExtensionArray):
            return pa.ExtensionArray.from_storage(array.type, self._array(array.storage))
        if is_rebuilt(array.type):
            return with_children(array, [self._array(child) for child in children_of(array)], array.type)
        type_ = _stored_type(array.type)
        if isinstance(type_, BooleanType | UnknownType) or array.null_count == len(array):
            return array
        if type_ is None:
            raise UnsupportedError(f"Cannot anonymise values that are stored as {array.type}; leave the column out")
        if isinstance(type_, FloatType):
            return _by_bits(array, lambda value: self.pseudonyms.of(type_, value))
        numeric = isinstance(type_, DateType | TimestampType | TimeType)
        plain = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()) if numeric else array
        encoded = pc.dictionary_encode(plain)
        others = [self.pseudonyms.of(type_, value) for value in encoded.dictionary.to_pylist()]
        found = pa.array(others, plain.type).take(encoded.indices)
        return found.cast(array.type) if numeric else found


def _by_bits(array: pa.Array, other: Callable[[float], float]) -> pa.Array:
    """Floats told apart by their bits: zeros have signs, and NaN equals nothing."""
    numbers = to_numpy(pc.fill_null(array, 0.0))
    bits, places = np.unique(numbers.view(f"u{numbers.itemsize}"), return_inverse=True)
    changed = np.fromiter(map(other, bits.view(numbers.dtype).tolist()), numbers.dtype, len(bits))
    is_number = np.isfinite(bits.view(numbers.dtype))
    kept = np.where(is_number, changed, bits.view(numbers.dtype))  # a NaN with its payload
    return from_numpy(kept[places], missing=to_numpy(pc.is_null(array)) if array.null_count else None)


def check_stored(field: Field, stored: pa.Field, *, file: str) -> None:
    """Refuses a column whose values in a file would not become those that its values in the table become.

    Raises:
        UnsupportedError: the type has parts that would stay, or the file has another type, which reads as the table's.
    """
    type_ = stored.type.storage_type if isinstance(stored.type, pa.ExtensionType) else stored.type
    match field.type:
        case StructType(fields=fields) if pa.types.is_struct(type_):
            by_id = {(f.metadata or {}).get(_ID, b"").decode() or f.name: f for f in type_}
            for inner in fields:
                found = by_id.get(str(inner.id)) or by_id.get(inner.physical_name or inner.name)
                if found is not None:
                    check_stored(inner, found, file=file)
        case ListType(element=element) if pa.types.is_list(type_) or pa.types.is_large_list(type_):
            check_stored(element, type_.value_field, file=file)
        case MapType(key=key, value=value) if pa.types.is_map(type_):
            check_stored(key, type_.key_field, file=file)
            check_stored(value, type_.item_field, file=file)
        case UnknownType():
            pass
        case own:
            if not _reads_alike(own, None if is_rebuilt(type_) else _stored_type(type_)):
                raise UnsupportedError(
                    f"Cannot anonymise column {field.name}: it is a {own}, stored as {stored.type}; leave the column "
                    "out",
                    file=file,
                    field=field.name,
                )


def check_calendar(metadata: Any, *, file: str) -> None:
    """Raises UnsupportedError: the file's days are those of the old calendar, and only readers tell which they are."""
    if any(name in (metadata or {}) for name in _OLD_CALENDARS):
        raise UnsupportedError("Cannot anonymise: the file's dates are in the old calendar", file=file)


def _reads_alike(own: Type, stored: Type | None) -> bool:
    """Whether a pseudonym of a stored value, read as the table's type, is that of the value as it is read."""
    match own, stored:
        case (DecimalType(scale=scale), DecimalType(scale=other)):
            return scale == other
        case (TimestampType(), DateType() | TimestampType()):
            return True
        case (BinaryType() | FixedType() | UuidType(), BinaryType()):
            return True
        case (IntegerType() | FloatType() | StringType() | BooleanType() | DateType() | TimeType(), _):
            return type(own) is type(stored)
        case _:
            return False


def _stored_type(type_: pa.DataType) -> Type | None:
    """How values of an Arrow type are read; None: as nothing that has pseudonyms."""
    kind = pa.types
    if kind.is_boolean(type_):
        return BooleanType()
    if kind.is_integer(type_):
        return IntegerType(64)
    if kind.is_floating(type_):
        return FloatType(64)
    if kind.is_decimal(type_):
        return DecimalType(type_.precision, type_.scale)
    if kind.is_string(type_) or kind.is_large_string(type_):
        return StringType()
    if kind.is_binary(type_) or kind.is_large_binary(type_) or kind.is_fixed_size_binary(type_):
        return BinaryType()
    if kind.is_date32(type_):
        return DateType()
    if kind.is_timestamp(type_):
        return TimestampType(type_.unit)
    if kind.is_time(type_):
        return TimeType(type_.unit)
    return UnknownType() if kind.is_null(type_) else None
