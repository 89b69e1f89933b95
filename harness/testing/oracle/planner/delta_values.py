"""Partition values of a Delta log: text to internal values (delta V2 to V7)."""

from __future__ import annotations

import decimal
import math
import re
import struct
from decimal import Decimal
from typing import Any

from harness.errors import InvalidTableError, UnsupportedError
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    Type,
    UnknownType,
)
from harness.testing.oracle.planner.documents import day_number, time_of_day

_EXACT = decimal.Context(prec=100, traps=[decimal.Inexact, decimal.InvalidOperation])
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DATE = re.compile(r"([+-]?[0-9]{1,7})-([0-9]{1,2})-([0-9]{1,2})")
_TIMESTAMP = re.compile(
    r"(?P<date>[^ T]+)[ T](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r" ?(?P<zone>Z|(?P<sign>[+-])(?P<h>[0-9]{2})(?::?(?P<m>[0-9]{2}))?(?::?(?P<s>[0-9]{2}))?)?"
)


def partition_value(text: str | None, type_: Type, *, column: str) -> Any:
    """The internal value of a partition value; None is null, and so is the empty text but of strings and binaries (V2).

    Raises:
        InvalidTableError: the text is no value of the type. UnsupportedError: no partition column has that type.
    """
    if text is None or isinstance(type_, UnknownType):
        return None
    if isinstance(type_, StringType):
        return text
    if isinstance(type_, BinaryType):
        return text.encode("utf-8", "surrogatepass")
    try:
        return None if text == "" else _parsed(text, type_)
    except (ValueError, OverflowError, decimal.DecimalException) as error:
        raise InvalidTableError(
            f"Invalid partition value {text!r:.80} of type {type_}: {error}",
            cause="PartitionValueError",
            field=column,
            rule="delta V4",
        ) from error


def _parsed(text: str, type_: Type) -> Any:
    match type_:
        case BooleanType():
            return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else _no()
        case IntegerType(bits=bits):
            number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,40}", text) else _no()
            return number if -1 << bits - 1 <= number < 1 << bits - 1 else _no()
        case FloatType(bits=bits):
            return _float(text, bits)
        case DecimalType(precision=precision, scale=scale):
            exact = Decimal(text if _NUMBER.fullmatch(text) else _no()).quantize(
                Decimal((0, (1,), -scale)), context=_EXACT
            )
            return abs(exact) if exact == 0 else exact if len(exact.as_tuple().digits) <= precision else _no()
        case DateType():
            return _date(text)
        case TimestampType(utc=utc):
            return _timestamp(text, utc=utc)
        case _:
            raise UnsupportedError(f"Cannot read partition values of type {type_}", rule="delta V7")


def _no() -> Any:
    raise ValueError("it has another form")


def _float(text: str, bits: int) -> float:
    special = re.fullmatch(r"([+-]?)(nan|inf|infinity)", text.lower())
    if special:
        return math.nan if special[2] == "nan" else -math.inf if special[1] == "-" else math.inf
    number = float(text if _NUMBER.fullmatch(text) else _no())
    number = struct.unpack(">f", struct.pack(">f", number))[0] if bits == 32 else number
    return _no() if math.isinf(number) else number


def _date(text: str) -> int:
    match = _DATE.fullmatch(text) or _no()
    days = day_number(int(match[1]), int(match[2]), int(match[3]))
    return days if -1 << 31 <= days < 1 << 31 else _no()


def _timestamp(text: str, *, utc: bool) -> int:
    """A text without zone is of UTC (V5); a zone in a timestamp without one can only be Z (V6)."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return _date(text) * 86_400_000_000
    parts = match.groupdict(default="")
    if not utc and parts["zone"] not in ("", "Z"):
        _no()
    time = time_of_day(
        int(parts["hour"]), int(parts["minute"]), int(parts["second"] or 0), parts["fraction"], per_second=1_000_000
    )
    offset = (int(parts["h"] or 0) * 60 + int(parts["m"] or 0)) * 60 + int(parts["s"] or 0)
    if int(parts["m"] or 0) > 59 or int(parts["s"] or 0) > 59 or offset > 18 * 3600:
        _no()
    micros = _date(parts["date"]) * 86_400_000_000 + time - (-offset if parts["sign"] == "-" else offset) * 1_000_000
    return micros if -1 << 63 <= micros < 1 << 63 else _no()
