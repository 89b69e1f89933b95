"""Random values that readers often handle wrongly: limits of number types, unusual texts, and cut bytes."""

from random import Random

EDGES = tuple(
    edge + step for edge in (0, 2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**53, 2**63, 2**64) for step in (-1, 0, 1)
)
PATHS = (
    "",
    "/",
    ".",
    "..",
    "../../../etc/passwd",
    "/etc/passwd",
    "/dev/zero",
    "/dev/stdin",
    "/proc/self/environ",
    "file:///etc/passwd",
    "file:/etc/../etc/passwd",
    "s3://bucket/key",
    "s3a://bucket/key",
    "http://127.0.0.1:9/x",
    "a//b",
    "./a",
    "%2e%2e/a",
    "a%00b",
    "a\0b",
    "~/a",
    "C:\\a",
    "\\\\host\\share",
    "a" * 300,
    "a/" * 2500,
    "data/*.parquet",
    "data/[a].parquet",
    "data/?.parquet",
    "\ud800",
)
TEXTS = (
    "null",
    "true",
    "NaN",
    "Infinity",
    "-0",
    "0",
    "-1",
    "1e400",
    "9" * 40,
    "9" * 5000,
    "2024-02-30",
    "1969-12-31",
    "9999-12-31 23:59:60",
    "10000-01-01",
    "__HIVE_DEFAULT_PARTITION__",
    "'",
    '"; DROP TABLE t; --',
    "\x1b[31m",
    "\u202e",
    "\u0130",
    "ß",
    "İ",
    "\U0001f600",
    "e\u0301",
    " ",
    "\n",
    "iceberg",
    "parquet",
    "PARQUET",
    "decimal(38, 38)",
    "decimal(0,0)",
    "decimal(77,5)",
    "fixed[99999999999]",
    "timestamp_ns",
    "struct<a:int>",
    "bucket[0]",
    "truncate[-1]",
)


def integer(rng: Random, value: int = 0) -> int:
    """Return a number near `value`, or at a limit of a type."""
    match rng.randrange(6):
        case 0:
            return value + rng.choice((-1, 1))
        case 1:
            return rng.choice((-value, value * 2, value // 2, ~value))
        case 2:
            return value ^ (1 << rng.randrange(64))
        case 3:
            return rng.randrange(10)
        case _:
            return rng.choice((1, -1)) * rng.choice(EDGES)


def text(rng: Random, value: str = "") -> str:
    """Return an unusual text, or a changed `value`."""
    place = rng.randrange(len(value) + 1)
    match rng.randrange(8):
        case 0:
            return value[:place]
        case 1:
            return value[:place] + rng.choice(TEXTS) + value[place:]
        case 2:
            return value.swapcase()
        case 3:
            return value * 2
        case 4:
            odd = rng.choice((0, 9, 0x22, 0x2F, 0x5C, 0x7F, 0xE9, 0xFFFF, 0x10FFFF))
            return value[:place] + chr(odd) + value[place + 1 :]
        case 5 | 6:
            return rng.choice(TEXTS)
        case _:
            return rng.choice(PATHS)


def blob(rng: Random, value: bytes) -> bytes:
    """Return `value` with a part changed, removed, repeated, or replaced."""
    start = rng.randrange(len(value) + 1)
    end = min(len(value), start + rng.choice((1, 1, 2, 4, 8, 64)))
    match rng.randrange(8):
        case 0:
            return value[:start]
        case 1:
            return value[:start] + value[end:]
        case 2:
            return value[:end] + value[start:]
        case 3:
            return value[:start] + rng.randbytes(end - start) + value[end:]
        case 4:
            return value[:start] + bytes(end - start) + value[end:]
        case 5:
            return value[:start] + b"\xff" * (end - start) + value[end:]
        case 6:
            return value[:start] + rng.randbytes(rng.choice((1, 4, 16))) + value[start:]
        case _:
            return flipped(rng, value)


def numbered(rng: Random, value: bytes) -> bytes:
    """Return the bytes with a number of 1 to 8 bytes set to a limit, as lengths, offsets, counts, and values are.

    Alternatively, a number replaces another one, or is inserted again.
    """
    width = rng.choice((1, 2, 2, 4, 4, 8))
    if len(value) < width:
        return blob(rng, value)
    place, other = (rng.randrange(0, len(value) - width + 1, min(2, width)) for _ in "ab")
    old = value[place : place + width]
    match rng.randrange(5):
        case 0:
            new = value[other : other + width]
        case 1:
            new = old + old
        case _:
            number = integer(rng, int.from_bytes(old, "little")) % 256**width
            new = number.to_bytes(width, "little")
    return value[:place] + new + value[place + width :]


def flipped(rng: Random, value: bytes) -> bytes:
    """Return the bytes with one bit flipped, or one byte if there were none."""
    if not value:
        return rng.randbytes(1)
    place = rng.randrange(len(value))
    return value[:place] + bytes((value[place] ^ 1 << rng.randrange(8),)) + value[place + 1 :]


def text_bytes(rng: Random, value: bytes) -> bytes:
    """Return bytes in place of a text: an unusual text, or invalid UTF-8."""
    if rng.random() < 0.3:
        return blob(rng, value)
    return text(rng, value.decode("utf-8", "replace")).encode("utf-8", "surrogatepass")
