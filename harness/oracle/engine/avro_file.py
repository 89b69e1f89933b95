"""Avro data files, decoded byte by byte: the container, its schema, and its records (iceberg 7.3)."""

from __future__ import annotations

import json

from harness.oracle.engine.avro_blocks import UnsupportedAvroError, open_container
from harness.oracle.engine.avro_types import parse_type
from harness.oracle.engine.stored import StoredFile


def open_avro(data: bytes) -> StoredFile:
    """The columns and rows of an Avro container.

    Raises:
        UnsupportedAvroError: a codec or a type that Iceberg's files do not have.
        ValueError: no Avro container, cut, or damaged; also while its rows are taken.
    """
    container = open_container(data)
    if "avro.schema" not in container.header:
        raise ValueError("its header has no avro.schema")
    root = parse_type(json.loads(container.header["avro.schema"]))
    if root.column.type != "struct" or root.is_optional:
        raise UnsupportedAvroError("its root is not a record")
    return StoredFile(columns=root.column.parts, rows=container.records(root.decode))
