"""Conversion of partition values, which are always text in the log, to internal values (delta V1 to V9).

Only the values in the log count: folder names have no meaning. A missing text means null, and so does the empty text if
the type of the column has no empty value (V2, V3). Timestamps without a zone are UTC, because the log does not record
the zone of its writer (V5).

Spec: Delta, "Partition Value Serialization".
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import InvalidTableError, UnsupportedError
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import from_numpy, offsets_of, to_numpy
from harness.metadata.plan.projection import stored_name
from harness.storage.records import dataclass

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_SPECIAL = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
_DATE = re.compile(r"([+-]?[0-9]{1,7})-([0-9]{1,2})-([0-9]{1,2})", re.ASCII)
_TIME = re.compile(
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r" ?(?P<zone>Z|[+-][0-9]{2}(?::?[0-9]{2}){0,2})?",
    re.ASCII,
)
_MIDNIGHT = _TIME.fullmatch("00:00")
_EXACT = decimal.Context(prec=100, traps=[decimal.Inexact, decimal.InvalidOperation])
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_DAYS_IN_400_YEARS = 146_097
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND


def parse_partition_value(
    text: str | None, type_: dt.Type, *, column: str | None = None, file: str | None = None
) -> dt.CellValue:
    """Parse a partition value into its internal form (see `harness.metadata.model.schema`), or None for null.

    Args:
        text: The text in the log. None: it is null, or the key is missing.
        type_: The type of the column in the version that is read. It may be wider than when the text was written (T24).
        column: The name of the column, for errors.
        file: The data file, for errors.

    Raises:
        InvalidTableError: The text is not a value of the type (cause `PartitionValueError`).
        UnsupportedError: A partition column cannot have this type, or harness does not read it (V7, T28).
    """
    if text is None:
        return None
    try:
        return _parse(text, type_)
    except _PartitionTextError as error:
        excerpt = repr(text) if len(text) <= 80 else f"{text[:77]!r}..."
        raise InvalidTableError(
            f"Invalid partition value: got {excerpt}, expected {error}",
            cause="PartitionValueError",
            file=file,
            field=column,
            rule=error.rule,
        ) from None
    except UnsupportedError as error:
        error.field = column
        raise error.within(file=file) from None


class _PartitionTextError(Exception):
    """A text that is not a value of its type. The message describes the expected text."""

    def __init__(self, expected: str, rule: str = "delta V4") -> None:
        super().__init__(expected)
        self.rule = rule


@lru_cache(maxsize=1 << 16)
def _parse(text: str, type_: dt.Type) -> dt.CellValue:
    match type_:
        case dt.StringType():
            return text
        case dt.BinaryType():
            return text.encode("utf-8", "surrogatepass")
        case dt.UnknownType():
            return None
        case _ if text == "":
            return None
        case dt.BooleanType():
            if text.lower() not in ("true", "false"):
                raise _PartitionTextError("true or false")
            return text.lower() == "true"
        case dt.IntegerType(bits=bits):
            value = int(text) if _INTEGER.fullmatch(text) else None
            if value is None or not -(1 << bits - 1) <= value < 1 << bits - 1:
                raise _PartitionTextError(f"an integer of type {type_}")
            return value
        case dt.FloatType(bits=bits):
            return _float(text, type_, bits)
        case dt.DecimalType():
            return _decimal(text, type_)
        case dt.DateType():
            return _date(text)
        case dt.TimestampType(utc=utc):
            micros, zone = _timestamp(text)
            if utc:
                return micros - _offset_us(zone)
            if zone not in (None, "Z"):
                raise _PartitionTextError("a timestamp without an offset", "delta V6")
            return micros
        case _:
            raise UnsupportedError(
                f"Cannot read partition values of type {type_}", cause="UnsupportedType", rule="delta V7"
            )


def _float(text: str, type_: dt.Type, bits: int) -> float:
    special = _SPECIAL.get(text.lstrip("+-").lower()) if len(text) - len(text.lstrip("+-")) < 2 else None
    if special is not None:
        return -special if text.startswith("-") and not math.isnan(special) else special
    if not _NUMBER.fullmatch(text):
        raise _PartitionTextError(f"a number of type {type_}")
    value = float(text)
    try:
        value = struct.unpack(">f", struct.pack(">f", value))[0] if bits == 32 else value
    except OverflowError:
        value = math.inf
    if math.isinf(value):
        raise _PartitionTextError(f"a number in the range of {type_}")
    return value


def _decimal(text: str, type_: dt.DecimalType) -> Decimal:
    expected = f"a number that {type_} holds exactly"
    if not _NUMBER.fullmatch(text):
        raise _PartitionTextError(expected)
    try:
        value = Decimal(text).quantize(Decimal(1).scaleb(-type_.scale), context=_EXACT)
    except decimal.DecimalException:
        raise _PartitionTextError(expected) from None
    if len(value.as_tuple().digits) > type_.precision and value != 0:
        raise _PartitionTextError(expected)
    return value.copy_abs() if value == 0 else value


def _date(text: str) -> int:
    match = _DATE.fullmatch(text)
    if match is None:
        raise _PartitionTextError("a date such as 2024-12-31")
    cycles, in_cycle = divmod(int(match[1]), 400)  # the proleptic Gregorian calendar repeats every 400 years
    try:
        ordinal = datetime.date(400 + in_cycle, int(match[2]), int(match[3])).toordinal()
    except ValueError:
        raise _PartitionTextError("a day that exists") from None
    days = ordinal - _EPOCH_DAY + (cycles - 1) * _DAYS_IN_400_YEARS
    if not -(1 << 31) <= days < 1 << 31:
        raise _PartitionTextError("a date in the range of 32 bits of days")
    return days


def _timestamp(text: str) -> tuple[int, str | None]:
    """Return the clock reading of a text in microseconds, and its zone.

    A date without a time is midnight. It occurs if the column was widened (T24).
    """
    day, separator, time = text.partition("T" if "T" in text else " ")
    match = _TIME.fullmatch(time) if separator else _MIDNIGHT
    if match is None:
        raise _PartitionTextError("a timestamp such as 2024-12-31 23:59:59.123456 or 2024-12-31T23:59:59Z", "delta V5")
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    fraction = (match["fraction"] or "").ljust(6, "0")
    if hour > 23 or minute > 59 or second > 59:
        raise _PartitionTextError("a time of day that exists", "delta V5")
    if fraction[6:].strip("0"):
        raise _PartitionTextError("at most 6 digits after the second", "delta V5")
    micros = _date(day) * _DAY + ((hour * 60 + minute) * 60 + second) * _SECOND + int(fraction[:6])
    if not -(1 << 63) <= micros < 1 << 63:
        raise _PartitionTextError("a timestamp in the range of 64 bits of microseconds", "delta V5")
    return micros, match["zone"]


def _offset_us(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = (int(digits[i : i + 2]) for i in (0, 2, 4))
    offset = (hours * 60 + minutes) * 60 + seconds
    if minutes > 59 or seconds > 59 or offset > 18 * 3600:
        raise _PartitionTextError("an offset of at most 18 hours", "delta V5")
    return (-offset if zone[0] == "-" else offset) * _SECOND


# Tables have few distinct partition values and many files. Maps are therefore split into columns, and each distinct
# text is parsed once.


_Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTuples:
    """The partition tuples of many files.

    Attributes:
        tuples: The distinct tuples in the order of their first files, as internal values by field id. Two spellings of
            a value are equal (delta V5), 0.0 and -0.0 are not.
        indexes: For each file, the index of its tuple in `tuples`.
    """

    tuples: tuple[Mapping[int, dt.CellValue], ...]
    indexes: npt.NDArray[np.int32]


def partition_tuples(files: pa.Table, columns: Sequence[dt.Field]) -> PartitionTuples:
    """Return the partition tuples of files.

    Args:
        files: A table with the columns `path` and `partition_values`. A value that is not recorded is null (delta V2).
        columns: The partition columns. If a key is missing, a key in another letter case is used instead (V8).

    Raises:
        InvalidTableError: A text is not a value of its column's type. Or a file lacks the key of a column and has an
            unknown key, which may hold the column's value (V2). The error names the file.
        UnsupportedError: A partition column cannot have its type, or harness does not read the type.
    """
    encoded = [_EncodedColumn() for _ in columns]
    start = 0
    # chunk by chunk, because allocating arrays for all files takes longer than filling them
    for maps in files.column("partition_values").chunks:
        lookup = _KeyLookup(maps, columns)
        lookup.check_keys(files.column("path"), start)
        for encoded_column, texts in zip(encoded, lookup.texts(), strict=True):
            encoded_column.append(texts, start)
        start += len(maps)
    typed = [_parse_column(each, column, files.column("path")) for column, each in zip(columns, encoded, strict=True)]
    combined: _Codes = np.zeros(files.num_rows, dtype=np.int64)
    for codes, distinct in typed:  # number the distinct codes in the order of their first occurrence
        both = from_numpy(combined * len(distinct) + codes)
        combined = to_numpy(pc.dictionary_encode(both).indices).astype(np.int64)
    firsts = _first_indices(combined, int(combined.max(initial=-1)) + 1)
    tuples = tuple(
        {column.id: distinct[int(codes[file])] for column, (codes, distinct) in zip(columns, typed, strict=True)}
        for file in firsts.tolist()
    )
    return PartitionTuples(tuples=tuples, indexes=combined.astype(np.int32))


def _first_indices(numbers: npt.NDArray[Any], count: int) -> _Codes:
    """Return the index of the first occurrence of each number below `count`."""
    firsts = np.zeros(count, dtype=np.int64)
    firsts[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return firsts


@dataclass(slots=True)
class _EncodedColumn:
    """The partition values of all files in one column, dictionary-encoded.

    Attributes:
        codes: For each file, the number of its text, as one array per chunk.
        texts: The distinct texts, with their numbers. Null counts as a text.
        firsts: For each text, the number of the first file that has it.
    """

    codes: list[_Codes] = field(default_factory=list)
    texts: dict[str | None, int] = field(default_factory=dict)
    firsts: list[int] = field(default_factory=list)

    def append(self, texts: pa.Array, start: int) -> None:
        """Append the texts of the next files. `start` is the number of the first of them."""
        encoded = pc.dictionary_encode(texts, null_encoding="encode")
        codes = to_numpy(encoded.indices)
        distinct = encoded.dictionary.to_pylist()
        firsts = start + _first_indices(codes, len(distinct))
        renumbered = np.zeros(len(distinct), dtype=np.int64)
        for place, text in enumerate(distinct):
            if text not in self.texts:
                self.texts[text] = len(self.texts)
                self.firsts.append(int(firsts[place]))
            renumbered[place] = self.texts[text]
        self.codes.append(renumbered[codes])


class _KeyLookup:
    """The partition values of many files, which are maps, with a lookup by column."""

    def __init__(self, maps: pa.MapArray, columns: Sequence[dt.Field]) -> None:
        offsets = to_numpy(offsets_of(maps))
        start, stop = int(offsets[0]), int(offsets[-1])
        keys = maps.keys.slice(start, stop - start).dictionary_encode()
        self._items = maps.items.slice(start, stop - start)
        self._names: list[str] = keys.dictionary.to_pylist()
        self._codes = to_numpy(keys.indices)
        self._owners = np.repeat(np.arange(len(maps)), np.diff(offsets))
        self._columns, self._count = columns, len(maps)

    def texts(self) -> Iterator[pa.Array]:
        """Yield, for each column, its text in each map, with null for maps that lack the column."""
        for column in self._columns:
            places = self._places(stored_name(column))
            yield self._items.take(from_numpy(places, missing=places < 0))

    def check_keys(self, paths: pa.ChunkedArray, start: int) -> None:
        """Refuse a file that lacks the key of a column and has an unknown key.

        `start` is the number of the first file.
        """
        column_keys = {stored_name(column).lower() for column in self._columns}
        is_unknown = [name.lower() not in column_keys for name in self._names]
        if not any(is_unknown):
            return
        owners = self._owners[np.array(is_unknown, dtype=np.bool_)[self._codes]]
        for column in self._columns:
            name = stored_name(column)
            files_without_key = owners[self._places(name)[owners] < 0]
            if len(files_without_key):
                file = int(files_without_key[0])
                keys = ", ".join(repr(self._names[code]) for code in self._codes[self._owners == file])
                physical = "" if name == column.name else f", the physical name of the column {column.name!r}"
                raise InvalidTableError(
                    f"Invalid partition values: got the keys {keys}, expected {name!r}{physical}; correct the "
                    "partitionValues of the file in the log",
                    cause="PartitionValueError",
                    file=paths[start + file].as_py(),
                    field=column.name,
                    rule="delta V2",
                )

    def _places(self, name: str) -> _Codes:
        """Return the position of a column's text among the items of all maps, with -1 for maps without the column."""
        other_columns = {stored_name(column) for column in self._columns} - {name}
        candidates = [
            i for i, key in enumerate(self._names) if key.lower() == name.lower() and key not in other_columns
        ]
        places = np.full(self._count, -1, dtype=np.int64)
        # The exact name has priority. Among names that differ in case, the last one in a map has priority (V8).
        for codes in (
            [i for i in candidates if self._names[i] != name],
            [i for i in candidates if self._names[i] == name],
        ):
            if codes:
                is_wanted = np.zeros(len(self._names), dtype=np.bool_)
                is_wanted[codes] = True
                hits = np.flatnonzero(is_wanted[self._codes])
                places[self._owners[hits]] = hits
        return places


def _parse_column(
    encoded: _EncodedColumn, column: dt.Field, paths: pa.ChunkedArray
) -> tuple[_Codes, list[dt.CellValue]]:
    """Return an index for each file, and the list of distinct values to which the indexes refer."""
    numbers: dict[Hashable, int] = {}
    distinct: list[dt.CellValue] = []
    renumbered = []
    for text, first in zip(encoded.texts, encoded.firsts, strict=True):
        value = parse_partition_value(text, column.type, column=column.name, file=paths[first].as_py())
        number = numbers.setdefault(_identity(value), len(distinct))
        if number == len(distinct):
            distinct.append(value)
        renumbered.append(number)
    codes = np.concatenate(encoded.codes) if encoded.codes else np.zeros(0, dtype=np.int64)
    return np.array(renumbered, dtype=np.int64)[codes], distinct


def _identity(value: dt.CellValue) -> Hashable:
    """Return a key that is equal for equal partition values. Floats are compared by bits, and all NaN are equal."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    return (value,)
