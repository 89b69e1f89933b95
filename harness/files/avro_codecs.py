"""Block codecs of Avro containers (iceberg 2.14). A block must be used up to its last byte: a rest is damage."""

from __future__ import annotations

import lzma
import zlib

from harness.errors import CorruptFileError, UnsupportedError
from harness.files.decompression import TooLongError, all_streams, inflate, unsnappy, unzstd
from harness.limits import Limits, refusal

CODECS = frozenset({"null", "deflate", "snappy", "zstandard", "bzip2", "xz"})
"""The codecs that Iceberg's Avro files may use (iceberg 2.14)."""

_CRC_BYTES = 4


def decompress(codec: str, block: bytes, *, file: str, cause: str, limits: Limits) -> bytes:
    """The plain bytes of one block of a codec in `CODECS`. `file` and `cause` are for messages.

    Raises:
        UnsupportedError: the package for the codec is missing. Cause `UnsupportedCodec`.
        CorruptFileError: the block is damaged. Cause `cause`.
        LimitError: it holds more than `limits.block_bytes`.
    """
    try:
        return _decompress(codec, block, limits.block_bytes)
    except TooLongError as error:
        asked = f"a block ({codec}) of {len(block):,} bytes holds {error.found:,} or more, {limits.block_bytes:,} are"
        raise refusal("block_bytes", f"{asked} allowed", file=file) from error
    except ImportError as error:
        raise UnsupportedError(
            f"Cannot read Avro codec {codec!r} without the package cramjam; install it",
            cause="UnsupportedCodec",
            file=file,
            rule="iceberg 2.14",
        ) from error
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
        raise CorruptFileError(
            f"Cannot decompress a block ({codec}): {error}", cause=cause, file=file, rule="iceberg 2.14"
        ) from error


def _decompress(codec: str, block: bytes, most: int) -> bytes:
    match codec:
        case "deflate":
            return _inflate(block, most)
        case "bzip2" | "xz":
            return all_streams(block, codec=codec, most=most)
        case "zstandard":
            return unzstd(block, most=most)
        case "snappy":
            return _unsnappy(block, most)
        case _:
            return block


def _inflate(block: bytes, most: int) -> bytes:
    plain, rest = inflate(block, most=most)
    # Python's writers cut a zlib stream out of its wrapping and leave most of the checksum behind it.
    if rest and not zlib.adler32(plain).to_bytes(4, "big").startswith(rest):
        raise ValueError(f"{len(rest)} bytes follow its stream")
    return plain


def _unsnappy(block: bytes, most: int) -> bytes:
    # Avro puts a big-endian CRC-32 of the plain bytes behind the snappy data.
    plain = unsnappy(block[:-_CRC_BYTES], most=most)
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != block[-_CRC_BYTES:]:
        raise ValueError("the checksum is wrong")
    return plain
