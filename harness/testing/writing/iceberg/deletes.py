"""What stands in delete files: their columns and rows, before they are written like data files.

Spec: Iceberg, "Position Delete Files", "Equality Delete Files".
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

from harness.errors import RequestError
from harness.metadata.model.schema import Field, IntegerType, Schema, StringType, StructType
from harness.testing.writing.iceberg.document import TableDocument
from harness.testing.writing.iceberg.evolution import find_field, pruned
from harness.testing.writing.iceberg.files import DataFileHandle, bare_data_file

# Puffin files with deletion vectors (Puffin spec, blob type `deletion-vector-v1`).


MAGIC = b"PFA1"
_BITMAP_MAGIC = b"\xd1\xd3\x39\x64"


@dataclass(frozen=True, slots=True)
class Blob:
    """One blob to be written: its bytes as stored, and what the footer says of it beside its place."""

    data: bytes
    footer: dict[str, Any]


def deletion_vector(data_file: str, positions: Iterable[int]) -> Blob:
    """The deletion vector of the data file with this recorded path: 0-based positions of dead rows."""
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    payload = _BITMAP_MAGIC + bitmap.serialize()
    data = struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    footer = {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "properties": {"referenced-data-file": data_file, "cardinality": str(len(bitmap))},
    }
    return Blob(data, footer)


def write_puffin(path: Path, blobs: Iterable[Blob]) -> list[tuple[int, int]]:
    """Write the file; (offset, length) of every blob, in order."""
    body = bytearray(MAGIC)
    places = []
    described = []
    for blob in blobs:
        places.append((len(body), len(blob.data)))
        described.append({**blob.footer, "offset": len(body), "length": len(blob.data)})
        body += blob.data
    payload = json.dumps({"blobs": described, "properties": {"created-by": "harness"}}).encode()
    body += MAGIC + payload + struct.pack("<i", len(payload)) + bytes(4) + MAGIC
    path.write_bytes(body)
    return places


PATH_ID = 2147483546
POSITION_ID = 2147483545
ROW_ID = 2147483544


def position_columns(schema: Schema | None) -> tuple[Field, ...]:
    """The columns of a position delete file; `schema` adds the optional copy of the deleted row."""
    columns = (
        Field(id=PATH_ID, name="file_path", type=StringType(), required=True),
        Field(id=POSITION_ID, name="pos", type=IntegerType(64), required=True),
    )
    if schema is None:
        return columns
    return (*columns, Field(id=ROW_ID, name="row", type=StructType(schema.fields), required=True))


def position_rows(
    deletes: Iterable[tuple[DataFileHandle | str, int]], rows: Sequence[Mapping[int, Any]] | None
) -> list[dict[int, Any]]:
    """The rows of a position delete file, in the given order; `rows` are the deleted rows, stored."""
    result: list[dict[int, Any]] = [
        {PATH_ID: target if isinstance(target, str) else target.path, POSITION_ID: position}
        for target, position in deletes
    ]
    for row, copied in zip(result, rows or (), strict=rows is not None):
        row[ROW_ID] = copied
    return result


def sorted_positions(deletes: Iterable[tuple[DataFileHandle | str, int]]) -> list[tuple[DataFileHandle | str, int]]:
    """The deletes by path and position, as the specification wants them in a file."""
    return sorted(deletes, key=lambda d: (d[0] if isinstance(d[0], str) else d[0].path, d[1]))


def shared_partition(
    document: TableDocument, default_spec_id: int, targets: Sequence[DataFileHandle | str]
) -> tuple[int, dict[str, Any]]:
    """Spec id and partition tuple of the data files, which must have them in common.

    Raises:
        RequestError: they differ, or are known by path only.
    """
    places = [(t.spec_id, t.data_file["partition"]) for t in targets if isinstance(t, DataFileHandle)]
    if not places and not document.specs[default_spec_id]:
        return default_spec_id, {}
    if not places or any(repr(p) != repr(places[0]) for p in places):
        raise RequestError(
            "Cannot tell the partition of the delete file: its data files are in several partitions or known by path "
            "only; write one delete file per partition, or name it with `partition` and `spec_id`"
        )
    return places[0]


def equality_columns(
    schema: Schema, columns: Sequence[str | int], extra: Sequence[str | int]
) -> tuple[tuple[int, ...], tuple[Field, ...]]:
    """Equality ids in the given order, and the columns of the delete file: the keys and `extra`, all optional."""
    ids = tuple(c if isinstance(c, int) else find_field(schema, c).id for c in columns)
    more = [c if isinstance(c, int) else find_field(schema, c).id for c in extra]
    return ids, pruned(schema.fields, {*ids, *more})


def write_vectors(
    file: Path, recorded: str, positions: Mapping[DataFileHandle, Iterable[int]]
) -> tuple[DataFileHandle, ...]:
    """Write a Puffin file with one deletion vector per data file; their handles, in order."""
    file.parent.mkdir(parents=True, exist_ok=True)
    dead = {target: sorted(set(rows)) for target, rows in positions.items()}
    places = write_puffin(file, [deletion_vector(target.path, rows) for target, rows in dead.items()])
    return tuple(
        DataFileHandle(
            file,
            target.spec_id,
            {
                **bare_data_file(1, recorded, target.data_file["partition"]),
                "file_format": "PUFFIN",
                "record_count": len(rows),
                "file_size_in_bytes": file.stat().st_size,
                "referenced_data_file": target.path,
                "content_offset": offset,
                "content_size_in_bytes": length,
            },
        )
        for (target, rows), (offset, length) in zip(dead.items(), places, strict=True)
    )
