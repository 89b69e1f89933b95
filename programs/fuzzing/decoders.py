"""The decoders of harness that take bytes, as functions. Invalid input must raise a HarnessError and nothing else."""

import contextlib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from harness.engines.data_files import canonical_wkb
from harness.errors import HarnessError, RequestError
from harness.metadata.deletes.delta_vectors import decode_inline, decode_stored
from harness.metadata.deletes.puffin import decode_deletion_vector, open_puffin
from harness.metadata.delta.action_lines import parse_actions
from harness.metadata.delta.log_files import parse_hint
from harness.metadata.files import roaring
from harness.metadata.files.avro import read_avro, schema_of_avro
from harness.metadata.files.avro_container import open_container
from harness.metadata.files.variant import object_fields, value_text
from harness.metadata.iceberg.manifests import parse_manifest_list
from harness.metadata.iceberg.metadata import parse_metadata
from harness.metadata.plan.deletes import InlineVector, StoredVector
from harness.storage.stores import Storage
from harness.suite.oracle import bitmaps as other_roaring
from harness.untrusted.arrow_messages import StreamError, read_stream

INPUTS = Path(__file__).parent / "inputs"
"""Small inputs by decoder, valid and invalid, including every input that ever was a finding."""

Decoder: TypeAlias = Callable[[bytes], object]


def _avro(data: bytes) -> object:
    """Decode an Avro file with rows, and its schema."""
    schema_of_avro(data, file="f")
    return read_avro(data, file="f")[1].num_rows


def _puffin(data: bytes) -> object:
    """Decode a Puffin file, and its first blob as a deletion vector."""
    opened = open_puffin(_InMemory(data), "/f")
    return decode_deletion_vector(opened.bytes_at(4, 8 + int.from_bytes(data[4:8], "big")))


def _bitmap(ours: Decoder, other: Decoder) -> Decoder:
    """Return a decoder of a roaring bitmap that checks that the oracle's decoder returns the same positions."""

    def decode(data: bytes) -> object:
        positions: Any = ours(data)
        with contextlib.suppress(HarnessError):
            assert list(positions) == sorted(other(data)), "two decoders of harness see other positions"  # type: ignore
        return positions

    return decode


def _stored_vector(data: bytes) -> object:
    """Decode a Delta deletion vector in a file: its size and checksum, its format, and its bitmap."""
    size, cardinality = max(0, len(data) - 8), data[-1] if data else 0
    vector = StoredVector(path="v", physical="v", format="bin", offset=1, length=size, record_count=cardinality)
    return decode_stored(data, vector)


def _inline_vector(data: bytes) -> object:
    """Decode a Delta deletion vector in a commit, in Z85 encoding."""
    text = data.decode("latin-1")
    return decode_inline(InlineVector(text=text, length=len(text) // 5 * 4, record_count=2))


def _variant(data: bytes) -> object:
    """Decode a variant value. The first byte is the length of the metadata, which comes first."""
    size = data[0] if data else 0
    metadata, value = data[1 : 1 + size], data[1 + size :]
    with contextlib.suppress(HarnessError):
        object_fields(metadata, value)
    return value_text(metadata, value)


def _wkb(data: bytes) -> object:
    """Decode a geometry. Its ValueError is expected, because callers convert it to an error that names the file."""
    with contextlib.suppress(ValueError):
        return canonical_wkb(data)
    return None


def _reader_rows(data: bytes) -> object:
    """Decode rows that another project's reader wrote, with all names of their schema."""
    try:
        rows = read_stream(data, most_bytes=1 << 24, most_rows=1 << 21, foreign=True)
    except StreamError as error:
        raise RequestError(f"Cannot read the rows: {error}") from error
    return str(rows.schema)


DECODERS: Mapping[str, Decoder] = {
    "ocf": lambda data: list(open_container(data, file="f").blocks()),
    "manifest_list": lambda data: parse_manifest_list(data, file="f"),
    "avro": _avro,
    "puffin": _puffin,
    "portable": _bitmap(roaring.decode_portable, lambda data: other_roaring.decode_portable(data, order="any")),
    "native": _bitmap(roaring.decode_native, lambda data: other_roaring.decode_native(data, order="little")),
    "stored_vector": _stored_vector,
    "inline_vector": _inline_vector,
    "variant": _variant,
    "wkb": _wkb,
    "actions": lambda data: parse_actions(data, file="f"),
    "hint": parse_hint,
    "reader_rows": _reader_rows,
    "metadata": lambda data: parse_metadata(data, file="f.metadata.json"),
}


def accepts(decoder: Decoder, data: bytes) -> bool:
    """Return True if the decoder accepts the bytes, and False if it raises the expected error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            decoder(data)
        except HarnessError:
            return False
    return True


class _InMemory(Storage):
    """A storage with one file, which is at every path."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        object.__setattr__(self, "data", data)

    def size(self, path: str) -> int:
        return len(self.data)  # type: ignore[attr-defined]

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        end = None if length is None else offset + length
        return bytes(self.data[offset:end])  # type: ignore[attr-defined]
