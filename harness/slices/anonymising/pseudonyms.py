"""Pseudonyms: values of the same type and shape that replace a table's values, chosen by a key.

Equal values have equal pseudonyms. Each type has one permutation, the same for every table, so that joins still match.
A value is processed from its first part (digits, characters, year, month …) to its last. Each part is replaced by
another part of its kind, by a permutation that the key and the earlier parts select. Values with a common prefix
therefore keep a common prefix, which partitions by truncated texts and numbers, years, months, days, and hours need.

Order is not kept, because only the identity keeps the order of all values of a type. Zeros, minus one, empty texts,
NaN, infinities, and the limits of integer types stay unchanged.
"""

from __future__ import annotations

import calendar
import datetime
import hashlib
import struct
import unicodedata
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UnsupportedError
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import can_rebuild, children_of, from_numpy, to_numpy, with_children

_ENDS = (0, 1 << 7, 1 << 15, 1 << 31, 1 << 63)
"""A pseudonym stays within the smallest integer type that holds the number, regardless of its column's type."""
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
_MONTHS = ((1, 3, 5, 7, 8, 10, 12), (4, 6, 9, 11), (2,))
"""Months are exchanged only with months of the same length, so that each day exists."""
_CLOCK = (24, 60, 60, *(10,) * 9)
"""Hours, minutes, seconds, and the digits of nanoseconds."""
_KINDS = (range(ord("0"), ord("9") + 1), range(ord("A"), ord("Z") + 1), range(ord("a"), ord("z") + 1))
_BLOCK = 256


class Pseudonyms:
    """The permutations of each type that a key selects. The same key always selects the same pseudonyms."""

    def __init__(self, key: str) -> None:
        self._key = hashlib.sha256(b"harness slice" + key.encode(errors="surrogatepass")).digest()
        self._permutation = lru_cache(maxsize=1 << 16)(self._shuffle)

    def pseudonym(self, type_: dt.Type, value: dt.CellValue) -> dt.CellValue:
        """Return the pseudonym of an internal value (see `harness.metadata.model.schema`), or None for null.

        Raises:
            UnsupportedError: The type has no pseudonyms, or the value is beyond the calendar.
        """
        match type_:
            case _ if value is None:
                return None
            case dt.BooleanType() | dt.UnknownType():
                return value
            case dt.IntegerType():
                return self._integer(value)
            case dt.FloatType():
                if value != value or value in (0, float("inf"), float("-inf")):
                    return value
                if _fits_float(value):
                    return self._float(value, ("<f", "<I"), 23)
                result = self._float(value, ("<d", "<Q"), 52)
                while _fits_float(result):
                    result = self._float(result, ("<d", "<Q"), 52)
                return result
            case dt.DecimalType(scale=scale):
                return dt.from_unscaled(self._integer(dt.unscaled(Decimal(value), scale)), scale)
            case dt.StringType():
                return self._text(value)
            case dt.BinaryType() | dt.FixedType() | dt.UuidType():
                return self._bytes(value)
            case dt.DateType():
                return self._day(value)
            case dt.TimestampType(unit=unit):
                return self._timestamp(value, unit)
            case dt.TimeType(unit=unit):
                return self._time(value, unit, "")
            case dt.StructType(fields=fields):
                return {f.id: self.pseudonym(f.type, value[f.id]) for f in fields if f.id in value}
            case dt.ListType(element=element):
                return [self.pseudonym(element.type, item) for item in value]
            case dt.MapType(key=key, value=item):
                return [(self.pseudonym(key.type, k), self.pseudonym(item.type, v)) for k, v in value]
            case _:
                raise UnsupportedError(
                    f"Cannot anonymise values of type {type_}: parts of them cannot be replaced; leave the column out"
                )

    def _image(self, before: str, count: int, index: int) -> int:
        """Return the item that replaces item `index` of `count` items, by the permutation that `before` selects."""
        return self._permutation(before, count)[index]

    def _shuffle(self, before: str, count: int) -> Sequence[int]:
        digest = hashlib.shake_256(self._key + before.encode("utf-8", "surrogatepass") + b"/%d" % count)
        random_bits = int.from_bytes(digest.digest(count * count.bit_length() // 8 + 16), "big")
        result = list(range(count))
        for last in range(count - 1, 0, -1):
            random_bits, other = divmod(random_bits, last + 1)
            result[last], result[other] = result[other], result[last]
        return result

    def _integer(self, value: int) -> int:
        return -1 - self._natural(-1 - value) if value < 0 else self._natural(value)

    def _natural(self, value: int) -> int:
        """Return the pseudonym of a number that is not negative.

        It has as many digits, and is between the same limits of integer types. Leading digits that the number shares
        with one of these limits stay.
        """
        if value == 0:
            return 0
        digits = str(value)
        low = next((str(end) for end in reversed(_ENDS) if 0 < end <= value), "")
        high = next((str(end - 1) for end in _ENDS if value < end), "")
        at_low, at_high = len(low) == len(digits), len(high) == len(digits)
        result = ""
        for place, text in enumerate(digits):
            digit = int(text)
            first = int(low[place]) + 1 if at_low else int(place == 0)
            last = int(high[place]) - 1 if at_high else 9
            if first <= digit <= last:
                image = self._image(f"i{len(digits)}:{digits[:place]}", last - first + 1, digit - first)
                result += str(first + image)
                at_low = at_high = False
            else:
                result += text
                at_low = at_low and text == low[place]
                at_high = at_high and text == high[place]
        return int(result)

    def _float(self, value: float, forms: tuple[str, str], bits: int) -> float:
        (number,) = struct.unpack(forms[1], struct.pack(forms[0], value))
        exponent, fraction = number >> bits, number & ((1 << bits) - 1)
        while True:
            matches, before = 0, f"f{bits}:{exponent}:"
            for shift in range(bits - 4, -4, -4):
                width, part = (
                    (4, fraction >> shift & 15) if shift >= 0 else (4 + shift, fraction & (1 << 4 + shift) - 1)
                )
                matches = matches << width | self._image(before, 1 << width, part)
                before += f"{part:x}"
            (result,) = struct.unpack(forms[0], struct.pack(forms[1], exponent << bits | matches))
            if result != 0:
                return float(result)
            fraction = matches  # the smallest numbers share their exponent with zero

    def _text(self, value: str) -> str:
        result = []
        for place, character in enumerate(value):
            kind = _character_class(character)
            if len(kind) > 1:
                index = self._image(f"s{value[:place]}", len(kind), kind.index(ord(character)))
                character = chr(kind[index])
            result.append(character)
        return "".join(result)

    def _bytes(self, value: bytes) -> bytes:
        digits, result = value.hex(), ""
        for place, digit in enumerate(digits):
            result += f"{self._image(f'b{digits[:place]}', 16, int(digit, 16)):x}"
        return bytes.fromhex(result)

    def _day(self, value: int) -> int:
        try:
            day = datetime.date.fromordinal(value + _EPOCH)
        except (ValueError, OverflowError):
            raise UnsupportedError(
                "Cannot anonymise a date before year 1 or after year 9999: leave the column out, or these rows"
            ) from None
        century = range(max(1, day.year // 100 * 100), day.year // 100 * 100 + 100)
        similar_years = [year for year in century if calendar.isleap(year) == calendar.isleap(day.year)]
        year = similar_years[self._image(f"y{similar_years[0]}", len(similar_years), similar_years.index(day.year))]
        months = next(group for group in _MONTHS if day.month in group)
        month = months[self._image(f"m{day.year}:{months[0]}", len(months), months.index(day.month))]
        length = calendar.monthrange(day.year, day.month)[1]
        number = 1 + self._image(f"d{day.year}:{day.month}", length, day.day - 1)
        return datetime.date(year, month, number).toordinal() - _EPOCH

    def _timestamp(self, value: int, unit: str) -> int:
        per_day = _DAY_US // 1000 if unit == "ms" else _DAY_US * 1000 if unit == "ns" else _DAY_US
        days, rest = divmod(value, per_day)
        result = self._day(days) * per_day + self._time(rest, unit, str(days))
        if not -(1 << 63) <= result < 1 << 63:
            raise UnsupportedError("Cannot anonymise a time in nanoseconds: its pseudonym is beyond the type's range")
        return result

    def _time(self, value: int, unit: str, before: str) -> int:
        """Return the pseudonym of a time of day. Zero parts stay zero, so that midnight stays midnight."""
        nanos = value * {"ms": 1_000_000, "us": 1000}.get(unit, 1)
        parts: list[int] = []
        for count in reversed(_CLOCK):
            nanos, part = divmod(nanos, count)
            parts.insert(0, part)
        result, before = 0, f"t{before}"
        for count, part in zip(_CLOCK, parts, strict=True):
            result = result * count + (1 + self._image(before, count - 1, part - 1) if part else 0)
            before += f":{part}"
        return result // {"ms": 1_000_000, "us": 1000}.get(unit, 1)

    def column(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the column with pseudonyms. Nulls, list lengths and the type stay."""
        return pa.chunked_array([self._array(chunk) for chunk in values.chunks], values.type)

    def _array(self, array: pa.Array) -> pa.Array:
        if isinstance(array, pa.ExtensionArray):
            return pa.ExtensionArray.from_storage(array.type, self._array(array.storage))
        if can_rebuild(array.type):
            return with_children(array, [self._array(child) for child in children_of(array)], array.type)
        type_ = _stored_type(array.type)
        if isinstance(type_, dt.BooleanType | dt.UnknownType) or array.null_count == len(array):
            return array
        if type_ is None:
            raise UnsupportedError(f"Cannot anonymise values that are stored as {array.type}; leave the column out")
        if isinstance(type_, dt.FloatType):
            numbers = to_numpy(pc.fill_null(array, 0.0))
            bits, places = np.unique(numbers.view(f"u{numbers.itemsize}"), return_inverse=True)
            values = bits.view(numbers.dtype)
            changed = np.fromiter((self.pseudonym(type_, value) for value in values.tolist()), numbers.dtype, len(bits))
            pseudonyms = np.where(np.isfinite(values), changed, values)  # keeps NaN with its payload
            return from_numpy(pseudonyms[places], missing=to_numpy(pc.is_null(array)) if array.null_count else None)
        numeric = isinstance(type_, dt.DateType | dt.TimestampType | dt.TimeType)
        plain = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()) if numeric else array
        encoded = pc.dictionary_encode(plain)
        others = [self.pseudonym(type_, value) for value in encoded.dictionary.to_pylist()]
        result = pa.array(others, plain.type).take(encoded.indices)
        return result.cast(array.type) if numeric else result


def _fits_float(value: float) -> bool:
    try:
        return bool(struct.unpack("<f", struct.pack("<f", value))[0] == value)
    except OverflowError:
        return False


@lru_cache(maxsize=1 << 16)
def _character_class(character: str) -> Sequence[int]:
    """Return the characters that can replace a character. Spaces and punctuation are replaced only by themselves."""
    code = ord(character)
    if code < 128:
        return next((kind for kind in _KINDS if code in kind), range(code, code + 1))
    category = unicodedata.category(character)
    if category[0] in "PZ" or category in ("Cc", "Cf", "Cs"):
        return range(code, code + 1)
    start = max(128, code // _BLOCK * _BLOCK)
    return [c for c in range(start, code // _BLOCK * _BLOCK + _BLOCK) if unicodedata.category(chr(c)) == category]


_ID = b"PARQUET:field_id"
OLD_INT96 = b"org.apache.spark.legacyINT96"
"""The footer key of a file whose INT96 values are in the old calendar."""
_OLD_CALENDARS = (b"org.apache.spark.legacyDateTime", OLD_INT96)


def check_stored(field: dt.Field, stored: pa.Field, *, file: str) -> None:
    """Raise an error unless the values that a file stores for a column have the same pseudonyms as the table's values.

    Raises:
        UnsupportedError: The type has parts without pseudonyms, or the file stores another type.
    """
    type_ = stored.type.storage_type if isinstance(stored.type, pa.ExtensionType) else stored.type
    match field.type:
        case dt.StructType(fields=fields) if pa.types.is_struct(type_):
            by_id = {(f.metadata or {}).get(_ID, b"").decode() or f.name: f for f in type_}
            for inner in fields:
                result = by_id.get(str(inner.id)) or by_id.get(inner.physical_name or inner.name)
                if result is not None:
                    check_stored(inner, result, file=file)
        case dt.ListType(element=element) if pa.types.is_list(type_) or pa.types.is_large_list(type_):
            check_stored(element, type_.value_field, file=file)
        case dt.MapType(key=key, value=value) if pa.types.is_map(type_):
            check_stored(key, type_.key_field, file=file)
            check_stored(value, type_.item_field, file=file)
        case dt.UnknownType():
            pass
        case own:
            if not _has_same_pseudonyms(own, None if can_rebuild(type_) else _stored_type(type_)):
                raise UnsupportedError(
                    f"Cannot anonymise column {field.name}: it is a {own}, stored as {stored.type}; leave the column "
                    "out",
                    file=file,
                    field=field.name,
                )


def check_calendar(metadata: Any, *, file: str) -> None:
    """Raise UnsupportedError if a file uses the old calendar, because readers convert its days to different dates."""
    if any(name in (metadata or {}) for name in _OLD_CALENDARS):
        raise UnsupportedError("Cannot anonymise: the file's dates are in the old calendar", file=file)


def _has_same_pseudonyms(logical: dt.Type, stored: dt.Type | None) -> bool:
    """Return whether a stored value and the same value read as the table's type have the same pseudonym."""
    match logical, stored:
        case (dt.DecimalType(scale=scale), dt.DecimalType(scale=other)):
            return scale == other
        case (dt.TimestampType(), dt.DateType() | dt.TimestampType()):
            return True
        case (dt.BinaryType() | dt.FixedType() | dt.UuidType(), dt.BinaryType()):
            return True
        case _:
            plain = dt.IntegerType | dt.FloatType | dt.StringType | dt.BooleanType | dt.DateType | dt.TimeType
            return isinstance(logical, plain) and type(logical) is type(stored)


_STORED: tuple[tuple[Callable[[pa.DataType], bool], dt.Type], ...] = (
    (pa.types.is_boolean, dt.BooleanType()),
    (pa.types.is_integer, dt.IntegerType(64)),
    (pa.types.is_floating, dt.FloatType(64)),
    (pa.types.is_string, dt.StringType()),
    (pa.types.is_large_string, dt.StringType()),
    (pa.types.is_binary, dt.BinaryType()),
    (pa.types.is_large_binary, dt.BinaryType()),
    (pa.types.is_fixed_size_binary, dt.BinaryType()),
    (pa.types.is_date32, dt.DateType()),
    (pa.types.is_null, dt.UnknownType()),
)


def _stored_type(type_: pa.DataType) -> dt.Type | None:
    """Return the table type whose pseudonyms apply to values of an Arrow type, or None if it has no pseudonyms."""
    if pa.types.is_decimal(type_):
        return dt.DecimalType(type_.precision, type_.scale)
    if pa.types.is_timestamp(type_):
        return dt.TimestampType(type_.unit)
    if pa.types.is_time(type_):
        return dt.TimeType(type_.unit)
    return next((result for is_kind, result in _STORED if is_kind(type_)), None)
