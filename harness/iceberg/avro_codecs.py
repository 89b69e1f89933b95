"""Block codecs of Avro containers (iceberg 2.14)."""

from __future__ import annotations

import bz2
import lzma
import zlib

from harness.errors import CorruptFileError, UnsupportedError


def decompress(codec: str, block: bytes, *, file: str) -> bytes:
    """The plain bytes of one block. `file` is for messages.

    Raises:
        UnsupportedError: the codec is none of null, deflate, snappy, zstandard, bzip2, xz. Cause `UnsupportedCodec`.
        CorruptFileError: the block is damaged. Cause `CorruptManifest`.
    """
    try:
        return _decompress(codec, block, file)
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
        raise _damaged(codec, file, str(error)) from error


def _decompress(codec: str, block: bytes, file: str) -> bytes:
    match codec:
        case "null":
            return block
        case "deflate":
            return zlib.decompress(block, wbits=-15)
        case "bzip2":
            return bz2.decompress(block)
        case "xz":
            return lzma.decompress(block)
        case "snappy" | "zstandard":
            return _cramjam(codec, block, file)
        case _:
            raise UnsupportedError(
                f"Cannot read Avro codec {codec!r}; harness reads null, deflate, snappy, zstandard, bzip2 and xz",
                cause="UnsupportedCodec",
                file=file,
                rule="iceberg 2.14",
            )


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
        plain = bytes(cramjam.snappy.decompress_raw(block[:-4]))
    except cramjam.DecompressionError as error:
        raise _damaged(codec, file, str(error)) from error
    if zlib.crc32(plain) != int.from_bytes(block[-4:], "big"):
        raise _damaged(codec, file, "the checksum is wrong")
    return plain


def _damaged(codec: str, file: str, reason: str) -> CorruptFileError:
    return CorruptFileError(
        f"Cannot decompress a block ({codec}): {reason}", cause="CorruptManifest", file=file, rule="iceberg 2.14"
    )
