"""Deletion vectors of a Delta table, from the descriptors in its log to a plan (delta D1 to D6).

Spec: Delta, "Deletion Vectors".
"""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.deletes.delta_vectors import FIRST_OFFSET, bad_vector, decode_z85
from harness.metadata.delta.actions import DeletionVectorDescriptor
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.paths import TableRoot
from harness.metadata.model.arrow_values import array_of, combined, scalar_of
from harness.metadata.plan.deletes import VECTORS, InlineVector, StoredVector, Vector
from harness.storage.paths import RecordedPath, join

_UUID_CHARACTERS = 20


def vector_path(storage_type: str, text: str, root: TableRoot) -> RecordedPath | None:
    """Return the path of the file that holds a deletion vector; None for an inline one (delta D2, D3).

    Args:
        storage_type: `u` (relative file), `p` (absolute file), or `i` (inline).
        text: The path or the inline vector, as the descriptor has it.
        root: The table's.

    Raises:
        CorruptDeleteError: the storage type is unknown, or the path cannot be decoded.
        InvalidTableError, UnsupportedError: as for `TableRoot.canonical`.
    """
    match storage_type:
        case "i":
            return None
        case "u":
            if len(text) < _UUID_CHARACTERS:
                raise bad_vector(f"its path {text!r} is shorter than {_UUID_CHARACTERS} characters", "delta D2")
            prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]  # the prefix is a random folder
            try:
                name = f"deletion_vector_{uuid.UUID(bytes=decode_z85(encoded))}.bin"
            except ValueError as error:
                raise bad_vector(f"its path {text!r} has {error}", "delta D2") from None
            return RecordedPath(join(root.path, prefix, name) if prefix else join(root.path, name))
        case "p":
            if not text.startswith("/") and ":" not in text.split("/", 1)[0]:
                raise bad_vector(f"its path {text!r} is relative, expected an absolute URI", "delta D3")
            return root.canonical(text)
        case other:
            raise bad_vector(f"its storage type is {other!r}, expected u, p or i", "delta D1")


def vector_of(descriptor: DeletionVectorDescriptor, locator: Locator) -> Vector:
    """Return the vector of a descriptor. Raises as `vector_path`."""
    path = vector_path(descriptor.storage_type, descriptor.path_or_inline, locator.root)
    length, record_count = descriptor.size, descriptor.cardinality
    if path is None:
        return InlineVector(text=descriptor.path_or_inline, length=length, record_count=record_count)
    return StoredVector(
        path=path,
        physical=locator.path_map.physical(path),
        format="bin",
        offset=descriptor.offset or FIRST_OFFSET,
        length=length,
        record_count=record_count,
    )


def vectors_of(files: pa.Table, locator: Locator) -> pa.Table:
    """Return `VECTORS` of files, each of which has a vector; `files` has the columns of `DELETION_VECTOR`.

    A path is resolved once for all vectors of its file. Raises as `vector_path`.
    """
    types, texts = (combined(files.column(name)) for name in ("dv_storage_type", "dv_path_or_inline"))
    is_inline = pc.equal(types, scalar_of("i", pa.string()))
    pairs = pc.binary_join_element_wise(types, texts, scalar_of("\n", pa.string())).dictionary_encode()
    named = [tuple(pair.split("\n", 1)) for pair in pairs.dictionary.to_pylist()]
    paths = [vector_path(storage_type, text, locator.root) for storage_type, text in named]
    physical = [None if path is None else locator.path_map.physical(path) for path in paths]
    known = [text if path is None else path for path, (_, text) in zip(paths, named, strict=True)]
    first, none = scalar_of(FIRST_OFFSET, pa.int64()), scalar_of(None, pa.int64())
    offsets = pc.fill_null(combined(files.column("dv_offset")), first)
    offsets = pc.if_else(pc.equal(offsets, scalar_of(0, pa.int64())), first, offsets)
    columns = {
        "format": pc.if_else(is_inline, scalar_of("inline", pa.string()), scalar_of("bin", pa.string())),
        "path": array_of(known, pa.string()).take(pairs.indices),
        "physical": array_of(physical, pa.string()).take(pairs.indices),
        "offset": pc.if_else(is_inline, none, offsets),
        "length": files.column("dv_size"),
        "record_count": files.column("dv_cardinality"),
    }
    return pa.table([columns[name] for name in VECTORS.names], schema=VECTORS)
