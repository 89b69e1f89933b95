"""DuckDB hashes as the definition says that `RowHash.java` has too; the definition is written anew here."""

from __future__ import annotations

import duckdb
import pytest

from harness.differ.hashing import NULL, SAMPLES

MASK, MULTIPLIER = (1 << 64) - 1, 0xD6E8FEB86659FD93


def mix(word: int) -> int:
    word &= MASK
    for _ in range(2):
        word = (word ^ word >> 32) * MULTIPLIER & MASK
    return word ^ word >> 32


def of_bytes(value: bytes) -> int:
    word = 0xE17A1465 ^ (len(value) * 0xC6A4A7935BD1E995 & MASK)
    for start in range(0, len(value), 8):
        word = (word ^ int.from_bytes(value[start : start + 8], "little")) * MULTIPLIER & MASK
    return mix(word)


CASES = {
    "NULL::BIGINT": NULL,
    "CAST('-1' AS BIGINT)": mix(-1),
    "CAST('18446744073709551615' AS UBIGINT)": mix(-1),
    "CAST('12345678901234567890123' AS HUGEINT)": mix(12345678901234567890123) ^ mix(12345678901234567890123 >> 64),
    "CAST('-1.25' AS DECIMAL(18, 2))": mix(-125),
    "CAST('-1.25' AS DECIMAL(38, 2))": mix(-125) ^ mix(-1),
    "make_timestamp(-77)": mix(-77),
    "TIME '00:00:01'": mix(1_000_000),
    "''": of_bytes(b""),
    "'01234567'": of_bytes(b"01234567"),
    "encode('012345678')": of_bytes(b"012345678"),
    "'0123456789abcdef0123456789abcdef-é漢'": of_bytes("0123456789abcdef0123456789abcdef-é漢".encode()),
}


@pytest.mark.parametrize(("value", "expected"), CASES.items(), ids=CASES)
def test_values_hash_as_defined(value: str, expected: int) -> None:
    assert f"hash({value})" in SAMPLES
    assert duckdb.sql(f"SELECT hash({value})").fetchall() == [(expected,)]
