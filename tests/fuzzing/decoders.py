"""The decoders of harness that take bytes, as functions of bytes: what they may raise is a HarnessError and no more."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from harness.engines.data_files import canonical_wkb
from harness.errors import HarnessError
from harness.metadata.delta.action_lines import parse_actions
from harness.metadata.delta.actions import DeletionVectorDescriptor
from harness.metadata.delta.deletion_vectors import decode_inline, decode_stored
from harness.metadata.delta.log_files import parse_hint
from harness.metadata.files import roaring
from harness.metadata.files.avro import read_avro, schema_of_avro
from harness.metadata.files.avro_container import open_container
from harness.metadata.files.variant import object_fields, value_text
from harness.metadata.iceberg.manifests import parse_manifest_list
from harness.metadata.iceberg.metadata import parse_metadata
from harness.metadata.iceberg.position_deletes import decode_deletion_vector, open_puffin
from harness.storage.stores import Storage
from harness.testing.oracle import bitmaps as other_roaring

CORPUS = Path(__file__).parent / "corpus"
"""Small inputs, by name of decoder: some right, some wrong, among them every one that was a finding once."""

Decoder: TypeAlias = Callable[[bytes], object]


def ocf(data: bytes) -> object:
    """The frame of an Avro file."""
    return list(open_container(data, file="f").blocks())


def manifest_list(data: bytes) -> object:
    """An Avro file of Iceberg's metadata."""
    return parse_manifest_list(data, file="f")


def avro(data: bytes) -> object:
    """An Avro file of rows, and its schema from its head."""
    schema_of_avro(data, file="f")
    return read_avro(data, file="f")[1].num_rows


def puffin(data: bytes) -> object:
    """A Puffin file, and its first blob as a deletion vector."""
    opened = open_puffin(_InMemory(data), "/f")
    return decode_deletion_vector(opened.bytes_at(4, 8 + int.from_bytes(data[4:8], "big")))


def portable(data: bytes) -> object:
    """A roaring bitmap in its portable form; the oracle's decoder must see the same positions."""
    found = roaring.decode_portable(data)
    _same(found, lambda: other_roaring.decode_portable(data, order="any"))
    return found


def native(data: bytes) -> object:
    """A roaring bitmap in Delta's older form."""
    found = roaring.decode_native(data)
    _same(found, lambda: other_roaring.decode_native(data, order="little"))
    return found


def stored_vector(data: bytes) -> object:
    """A deletion vector of Delta in a file: its size and checksum, its form, its bitmap."""
    vector = DeletionVectorDescriptor(
        storage_type="u", path_or_inline="", offset=1, size=max(0, len(data) - 8), cardinality=data[-1] if data else 0
    )
    return decode_stored(data, vector)


def inline_vector(data: bytes) -> object:
    """A deletion vector of Delta in its commit, as Z85."""
    text = data.decode("latin-1")
    vector = DeletionVectorDescriptor(storage_type="i", path_or_inline=text, size=len(text) // 5 * 4, cardinality=2)
    return decode_inline(vector)


def variant(data: bytes) -> object:
    """A variant value; its metadata is as many bytes of the front as the first byte says."""
    size = data[0] if data else 0
    metadata, value = data[1 : 1 + size], data[1 + size :]
    return _ignoring(lambda: object_fields(metadata, value)), value_text(metadata, value)


def wkb(data: bytes) -> object:
    """A geometry; this one raises ValueError, which its callers turn into an error that names the file."""
    try:
        return canonical_wkb(data)
    except ValueError:
        return None


def actions(data: bytes) -> object:
    """A commit of Delta."""
    return parse_actions(data, file="f")


def hint(data: bytes) -> object:
    """`_last_checkpoint` of Delta."""
    return parse_hint(data)


def metadata(data: bytes) -> object:
    """A metadata file of Iceberg."""
    return parse_metadata(data, file="f.metadata.json")


DECODERS: Mapping[str, Decoder] = {
    decoder.__name__: decoder
    for decoder in (
        ocf, manifest_list, avro, puffin, portable, native, stored_vector, inline_vector, variant, wkb, actions, hint,
        metadata,
    )
}  # fmt: skip


def accepts(decoder: Decoder, data: bytes) -> bool:
    """Whether the decoder takes the bytes; False: it refuses them as it should."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            decoder(data)
        except HarnessError:
            return False
    return True


def _same(found: Any, other: Callable[[], Any]) -> None:
    try:
        seen = other()
    except HarnessError:
        return
    assert list(found) == sorted(seen), "two decoders of harness see other positions"


def _ignoring(read: Callable[[], object]) -> object:
    try:
        return read()
    except HarnessError:
        return None


class _InMemory(Storage):
    """One file, at any path."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        object.__setattr__(self, "data", data)

    def size(self, path: str) -> int:
        return len(self.data)  # type: ignore[attr-defined]

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        end = None if length is None else offset + length
        return bytes(self.data[offset:end])  # type: ignore[attr-defined]
