"""Block codecs of Avro containers (iceberg 2.14). A block must be used up to its last byte: a rest is damage."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any

from harness.errors import CorruptFileError, UnsupportedError

CODECS = frozenset({"null", "deflate", "snappy", "zstandard", "bzip2", "xz"})
"""The codecs that Iceberg's Avro files may use (iceberg 2.14)."""

_CRC_BYTES = 4


def decompress(codec: str, block: bytes, *, file: str, cause: str) -> bytes:
    """The plain bytes of one block of a codec in `CODECS`. `file` and `cause` are for messages.

    Raises:
        UnsupportedError: the package for the codec is missing. Cause `UnsupportedCodec`.
        CorruptFileError: the block is damaged. Cause `cause`.
    """
    try:
        return _decompress(codec, block, file)
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
        raise CorruptFileError(
            f"Cannot decompress a block ({codec}): {error}", cause=cause, file=file, rule="iceberg 2.14"
        ) from error


def _decompress(codec: str, block: bytes, file: str) -> bytes:
    match codec:
        case "deflate":
            return _inflate(block)
        case "bzip2":
            return _all_streams(bz2.BZ2Decompressor, block)
        case "xz":
            return _all_streams(lzma.LZMADecompressor, block)
        case "snappy" | "zstandard":
            return _cramjam(codec, block, file)
        case _:
            return block


def _inflate(block: bytes) -> bytes:
    inflater = zlib.decompressobj(wbits=-15)
    plain = inflater.decompress(block) + inflater.flush()
    if not inflater.eof:
        raise ValueError("it ends inside its stream")
    # Python's writers cut a zlib stream out of its wrapping and leave most of the checksum behind it.
    if not zlib.adler32(plain).to_bytes(4, "big").startswith(inflater.unused_data):
        raise ValueError(f"{len(inflater.unused_data)} bytes follow its stream")
    return plain


def _all_streams(decompressor: Callable[[], Any], block: bytes) -> bytes:
    """The content of one or more streams, which the standard library's own functions would let end in anything."""
    parts: list[bytes] = []
    while block or not parts:
        stream = decompressor()
        parts.append(stream.decompress(block))
        if not stream.eof:
            raise EOFError("it ends inside a stream")
        block = stream.unused_data
    return b"".join(parts)


def _cramjam(codec: str, block: bytes, file: str) -> bytes:
    try:
        import cramjam
    except ImportError as error:
        raise UnsupportedError(
            f"Cannot read Avro codec {codec!r} without the package cramjam; install it",
            cause="UnsupportedCodec",
            file=file,
            rule="iceberg 2.14",
        ) from error
    try:
        if codec == "zstandard":
            return bytes(cramjam.zstd.decompress(block))
        # Avro puts a big-endian CRC-32 of the plain bytes behind the snappy data.
        plain = bytes(cramjam.snappy.decompress_raw(block[:-_CRC_BYTES]))
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != block[-_CRC_BYTES:]:
        raise ValueError("the checksum is wrong")
    return plain
