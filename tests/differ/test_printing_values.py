"""How values are printed; expectations by hand."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from harness.differ.printing import show, show_pair


def single(value, type_=None):
    return pa.array([value], type_)


def stored(storage, type_):
    return pa.ExtensionArray.from_storage(type_, storage)


DAYS_PER_ERA = 146_097


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(single(None), "NULL", id="null"),
        pytest.param(single(None, pa.string()), "NULL", id="null text"),
        pytest.param(single("NULL"), "'NULL'", id="text NULL"),
        pytest.param(single(""), "''", id="empty text"),
        pytest.param(single(" a\t"), r"' a\t'", id="blanks"),
        pytest.param(single("it's \\n"), r"'it\'s \\n'", id="quote and backslash"),
        pytest.param(single("a\u200b\u00a0\n\x00\U000e0001"), r"'a\u200b\xa0\n\x00\U000e0001'", id="invisible"),
        pytest.param(single("Grüße 漢"), "'Grüße 漢'", id="letters"),
        pytest.param(single("می\u200cخواهم 👩\u200d💻"), "'می\u200cخواهم 👩\u200d💻'", id="joiners"),
        pytest.param(pa.array([b"a\xff"]).view(pa.string()), "x'61ff' (not UTF-8)", id="no text"),
        pytest.param(single("x", pa.dictionary(pa.int8(), pa.string())), "'x'", id="dictionary"),
        pytest.param(single(True), "true", id="true"),
        pytest.param(stored(pa.array([0], pa.int8()), pa.bool8()), "false", id="bool8"),
        pytest.param(single(-7, pa.int8()), "-7", id="integer"),
        pytest.param(
            stored(pa.array([b"\x01" + b"\xff" * 15], pa.binary(16)), pa.opaque(pa.binary(16), "hugeint", "DuckDB")),
            "-255",
            id="hugeint",
        ),
        pytest.param(single(Decimal("1.50"), pa.decimal128(9, 2)), "1.50", id="decimal"),
        pytest.param(single(Decimal("0E-9"), pa.decimal128(20, 9)), "0.000000000", id="decimal zero"),
        pytest.param(single(0.1), "0.1", id="double"),
        pytest.param(single(0.0), "0.0", id="zero"),
        pytest.param(single(-0.0), "-0.0 (0x8000000000000000)", id="negative zero"),
        pytest.param(single(float("nan")), "NaN (0x7ff8000000000000)", id="NaN"),
        pytest.param(single(float("-inf")), "-inf", id="infinity"),
        pytest.param(single(0.1, pa.float32()), "0.1 (0x3dcccccd)", id="float that is not what it looks"),
        pytest.param(single(0.5, pa.float32()), "0.5", id="float"),
        pytest.param(single(-0.0, pa.float32()), "-0.0 (0x80000000)", id="negative float zero"),
        pytest.param(single(b"\x00\xff"), "x'00ff'", id="bytes"),
        pytest.param(single(b"\x01", pa.binary(1)), "x'01'", id="fixed"),
        pytest.param(single(bytes(range(16)), pa.uuid()), "00010203-0405-0607-0809-0a0b0c0d0e0f", id="uuid"),
        pytest.param(single(0, pa.date32()), "1970-01-01", id="date"),
        pytest.param(single(11_016, pa.date32()), "2000-02-29", id="leap day"),
        pytest.param(single(-1, pa.date32()), "1969-12-31", id="day before"),
        pytest.param(single(11_017 - 5 * DAYS_PER_ERA, pa.date32()), "0000-03-01", id="year 0"),
        pytest.param(single(11_016 - 6 * DAYS_PER_ERA, pa.date32()), "-0400-02-29", id="before year 0"),
        pytest.param(single(11_016 + 20 * DAYS_PER_ERA, pa.date32()), "+10000-02-29", id="after year 9999"),
        pytest.param(single(86_400_000, pa.date64()), "1970-01-02", id="date64"),
        pytest.param(single(0, pa.timestamp("s")), "1970-01-01 00:00:00", id="seconds"),
        pytest.param(single(-1, pa.timestamp("us")), "1969-12-31 23:59:59.999999", id="microseconds"),
        pytest.param(single(1, pa.timestamp("ns", "UTC")), "1970-01-01 00:00:00.000000001Z", id="nanoseconds in UTC"),
        pytest.param(single(0, pa.timestamp("ms", "Asia/Tokyo")), "1970-01-01 00:00:00.000Z", id="other zone"),
        pytest.param(single(2**63 - 1, pa.timestamp("us")), "+294247-01-10 04:00:54.775807", id="last microsecond"),
        pytest.param(single(3_661, pa.time32("s")), "01:01:01", id="time"),
        pytest.param(single(1, pa.time64("ns")), "00:00:00.000000001", id="time of nanoseconds"),
        pytest.param(single(-1_500, pa.duration("ms")), "-1.5s", id="duration"),
        pytest.param(single(60, pa.duration("s")), "60s", id="minute"),
        pytest.param(single(100, pa.duration("us")), "0.0001s", id="short duration"),
        pytest.param(single((1, -2, 3), pa.month_day_nano_interval()), "1 month -2 days 3 ns", id="interval"),
        pytest.param(single(["a", None]), "['a', NULL]", id="list"),
        pytest.param(single([]), "[]", id="empty list"),
        pytest.param(single(None, pa.list_(pa.int8())), "NULL", id="null list"),
        pytest.param(single({"b": [0.1], "a": None}), "{b: [0.1], a: NULL}", id="struct"),
        pytest.param(single([(2, "x"), (1, None)], pa.map_(pa.int8(), pa.string())), "map{1: NULL, 2: 'x'}", id="map"),
    ],
)
def test_show(value, expected):
    assert show(value, 0) == expected
    assert show(pa.chunked_array([value.slice(1), pa.concat_arrays([value, value])]), 1) == expected


def test_long_values_are_cut_alike_around_the_first_difference():
    left, right = show_pair(single("a" * 1000 + "b" + "c" * 1000), 0, single("a" * 1000 + "d" + "c" * 1000), 0)
    assert left == "'" + "a" * 99 + "…(841 of 2,003 characters)…" + "a" * 60 + "b" + "c" * 139 + (
        "…(802 of 2,003 characters)…" + "c" * 59 + "'"
    )
    assert right == left.replace("b", "d")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param(single("\u00e9"), single("e\u0301"), (r"'\xe9'", r"'e\u0301'"), id="composed and decomposed"),
        pytest.param(single("\ufb01n"), single("fin"), (r"'\ufb01n'", "'fin'"), id="ligature"),
        pytest.param(single("ä"), single("ö"), ("'ä'", "'ö'"), id="plainly different"),
        pytest.param(single(""), single(None, pa.string()), ("''", "NULL"), id="empty and null"),
        pytest.param(single(0.0), single(-0.0), ("0.0", "-0.0 (0x8000000000000000)"), id="zeros"),
        pytest.param(single(0.1, pa.float32()), single(0.1), ("0.1 (0x3dcccccd)", "0.1"), id="float and double"),
        pytest.param(
            single(1, pa.timestamp("us")),
            single(1_001, pa.timestamp("ns")),
            ("1970-01-01 00:00:00.000001", "1970-01-01 00:00:00.000001001"),
            id="nanosecond",
        ),
        pytest.param(single("ख\u200dख"), single("खख"), (r"'\u0916\u200d\u0916'", r"'\u0916\u0916'"), id="joiner"),
        pytest.param(single(1), single(1, pa.int8()), ("1 (int64)", "1 (int8)"), id="print the same"),
    ],
)
def test_pairs_show_the_difference(left, right, expected):
    assert show_pair(left, 0, right, 0) == expected
