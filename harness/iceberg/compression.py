"""Metadata files as plain bytes: compression is told by the first bytes, never by the name (iceberg 1.7)."""

from __future__ import annotations

import gzip
import zlib

import pyarrow as pa

from harness.errors import CorruptFileError, UnsupportedError

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def decompress(data: bytes, *, file: str) -> bytes:
    """The content of a metadata file: gzip and zstd (which is outside the specification) undone, else `data` itself.

    Raises:
        CorruptFileError: the compressed bytes are damaged or cut short.
        UnsupportedError: the file is zstd, and the installed pyarrow has no zstd.
    """
    try:
        if data.startswith(GZIP_MAGIC):
            return gzip.decompress(data)
        if data.startswith(ZSTD_MAGIC):
            return _zstd(data, file)
        return data
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFileError(
            f"Cannot decompress metadata file: {error}", cause="CorruptMetadata", file=file, rule="iceberg 1.7"
        ) from error


def _zstd(data: bytes, file: str) -> bytes:
    if not pa.Codec.is_available("zstd"):
        raise UnsupportedError(
            "Cannot decompress metadata file: it is zstd, which the installed pyarrow cannot read",
            cause="UnsupportedCodec",
            file=file,
            rule="iceberg 1.7",
        )
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read())
