"""Metadata files as plain bytes: compression is told by the first bytes, never by the name (iceberg 1.7)."""

from __future__ import annotations

import zlib

import pyarrow as pa

from harness.errors import CorruptFileError, UnsupportedError
from harness.files.decompression import TooLongError, gunzip, unzstd
from harness.limits import Limits, refusal

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def decompress(data: bytes, *, file: str, limits: Limits) -> bytes:
    """The content of a metadata file: gzip and zstd (which is outside the specification) undone, else `data` itself.

    Raises:
        CorruptFileError: the compressed bytes are damaged or cut short.
        LimitError: the content is longer than `limits.document_bytes`.
        UnsupportedError: the file is zstd, and the installed pyarrow has no zstd.
    """
    most = limits.document_bytes
    try:
        if data.startswith(GZIP_MAGIC):
            return gunzip(data, most=most)
        if data.startswith(ZSTD_MAGIC):
            return _zstd(data, file, most)
        return data
    except TooLongError as error:
        asked = f"its {len(data):,} bytes hold {error.found:,} or more, {most:,} are allowed"
        raise refusal("document_bytes", asked, file=file) from error
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFileError(
            f"Cannot decompress metadata file: {error}", cause="CorruptMetadata", file=file, rule="iceberg 1.7"
        ) from error


def _zstd(data: bytes, file: str, most: int) -> bytes:
    if not pa.Codec.is_available("zstd"):
        raise UnsupportedError(
            "Cannot decompress metadata file: it is zstd, which the installed pyarrow cannot read",
            cause="UnsupportedCodec",
            file=file,
            rule="iceberg 1.7",
        )
    return unzstd(data, most=most)
