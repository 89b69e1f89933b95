"""The hash of a row: two lanes of 64 bits, the same in every engine.

    mix(x)       x ^= x >> 32; x *= MULTIPLIER; x ^= x >> 32; x *= MULTIPLIER; x ^= x >> 32
    link(a, h)   mix(a ^ h)
    chain(h...)  link(... link(link(seed of the lane, h0), h1) ...)

    null         NULL
    64 bits      mix(bits)
    128 bits     mix(low) ^ mix(high); in the second lane of the negated number, or a number and the one whose words are
                 swapped, such as 0 and -1, would be equal in both
    bytes        folded in words of 8; in the second lane with PREFIX before them, or two flips of a word's highest bit
                 would go unseen
    several      chain: two numbers of a time or decimal, the fields of a struct, the elements of a list and their count
    map          the sum of the entries' chains, and their count: chain
    row          chain of the columns, by blocks of BLOCK columns where there are more

It is the function that DuckDB calls `hash`, verified by `is_known` before it is relied on, because it is the cheapest
that DuckDB has; `harness/engines/spark/java/RowHash.java` says the same in Java. Per bucket, both lanes are summed as
whole numbers: unlike with XOR, a row twice is not a row less.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, TypeAlias

from harness.engines.shared.duckdb_instance import cursor

MULTIPLIER = 0xD6E8FEB86659FD93
NULL = 0xBF58476D1CE4E5B9
SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
PREFIX = "x"
BLOCK = 48

Lane: TypeAlias = Literal[0, 1]
LANES: tuple[Lane, Lane] = (0, 1)

_MASK = (1 << 64) - 1
_BYTES_START = 0xE17A1465
_BYTES_LENGTH = 0xC6A4A7935BD1E995
_LONGER = "0123456789abcdef0123456789abcdef-é漢"


def mix(word: int) -> int:
    """64 bits, spread; a bijection."""
    word &= _MASK
    word ^= word >> 32
    word = word * MULTIPLIER & _MASK
    word ^= word >> 32
    word = word * MULTIPLIER & _MASK
    return word ^ word >> 32


def hash_bytes(value: bytes) -> int:
    """The hash of bytes in the first lane."""
    word = _BYTES_START ^ (len(value) * _BYTES_LENGTH & _MASK)
    for start in range(0, len(value), 8):
        word = (word ^ int.from_bytes(value[start : start + 8], "little")) * MULTIPLIER & _MASK
    return mix(word)


@cache
def is_known() -> bool:
    """Whether this DuckDB hashes as defined above."""
    connection = cursor()
    ((answers,),) = connection.sql(f"SELECT [{', '.join(_samples())}]").fetchall()
    connection.close()
    return list(answers) == list(_samples().values())


def _samples() -> dict[str, int]:
    """What DuckDB must give for these expressions."""
    samples = {"hash(NULL::BIGINT)": NULL, "hash(NULL::VARCHAR)": NULL, "hash(NULL::DECIMAL(38, 2))": NULL}
    for number in (0, 1, -1, 42, 2**63 - 1, -(2**63)):
        samples[f"hash(CAST('{number}' AS BIGINT))"] = mix(number)
        samples[f"hash(CAST('{number & _MASK}' AS UBIGINT))"] = mix(number)
    for number in (0, -1, 12345678901234567890123, -(10**30)):
        samples[f"hash(CAST('{number}' AS HUGEINT))"] = mix(number) ^ mix(number >> 64)
    samples["hash(CAST('-1.25' AS DECIMAL(18, 2)))"] = mix(-125)
    samples["hash(CAST('-1.25' AS DECIMAL(38, 2)))"] = mix(-125) ^ mix(-1)
    samples["hash(make_timestamp(-77))"] = mix(-77)
    samples["hash(make_timestamp_ns(-77))"] = mix(-77)
    samples["hash(TIME '00:00:01')"] = mix(1_000_000)
    for length in (*range(18), 24, 31, len(_LONGER)):
        value = _LONGER[:length]
        samples[f"hash('{value}')"] = hash_bytes(value.encode())
        samples[f"hash(encode('{value}'))"] = hash_bytes(value.encode())
    return samples
