"""Checksum files `N.crc`: what a writer believes that version N holds (delta L28).

They are optional, and were stale or malformed in real tables, so they never override replay. Where one contradicts the
state, its reader is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow.compute as pc

from harness.delta.actions import State
from harness.errors import LimitError
from harness.files.documents import check_document
from harness.limits import DEFAULT, Limits


def cross_check(state: State, data: bytes, *, file: str, limits: Limits = DEFAULT) -> tuple[str, ...]:
    """One warning per field of the checksum in `data` that contradicts `state`, or one if it cannot be read.

    `file` is the checksum's, for the text. Fields that are absent, or of an unexpected type, say nothing.
    """
    try:
        check_document(data, file=file, limits=limits)
        said = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError, LimitError):
        said = None
    name = file.rsplit("/", 1)[-1]
    if not isinstance(said, dict):
        return (f"The checksum file {name} is malformed and was not used",)
    said = {key: len(value) if key == "allFiles" and isinstance(value, list) else value for key, value in said.items()}
    return tuple(
        f"The checksum file {name} says {key} {said[key]}, the log says {value}"
        for key, value in _facts(state)
        if type(said.get(key)) is int and said[key] != value
    )


def _facts(state: State) -> Iterator[tuple[str, int]]:
    files = state.files
    yield "numFiles", files.num_rows
    yield "tableSizeBytes", pc.sum(files.column("size"), min_count=0).as_py()
    yield "numProtocol", 1
    yield "numMetadata", 1
    vectors = files.column("dv_cardinality")
    yield "numDeletionVectorsOpt", len(vectors) - vectors.null_count
    yield "numDeletedRecordsOpt", pc.sum(vectors, min_count=0).as_py()
    yield "allFiles", files.num_rows
