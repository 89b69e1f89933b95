"""Helpers to build checkpoint rows in tests."""

from typing import Any

import pyarrow as pa

TEXT, LONG, INT = pa.string(), pa.int64(), pa.int32()
TEXTS, TEXT_MAP = pa.list_(TEXT), pa.map_(TEXT, TEXT)
VERSIONS = {"minReaderVersion": INT, "minWriterVersion": INT}
VECTOR = {"storageType": TEXT, "pathOrInlineDv": TEXT, "offset": INT, "sizeInBytes": INT, "cardinality": LONG}
VECTOR_TYPE = pa.struct(VECTOR)
ADD = {"path": TEXT, "partitionValues": TEXT_MAP, "size": LONG, "stats": TEXT, "deletionVector": VECTOR_TYPE}
TYPES = {
    "protocol": pa.struct({**VERSIONS, "readerFeatures": TEXTS, "writerFeatures": TEXTS}),
    "metaData": pa.struct({"id": TEXT, "schemaString": TEXT, "partitionColumns": TEXTS, "configuration": TEXT_MAP}),
    "add": pa.struct(ADD),
    "remove": pa.struct({"path": TEXT, "deletionVector": VECTOR_TYPE}),
    "txn": pa.struct({"appId": TEXT, "version": LONG, "lastUpdated": LONG}),
    "domainMetadata": pa.struct({"domain": TEXT, "configuration": TEXT, "removed": pa.bool_()}),
    "sidecar": pa.struct({"path": TEXT, "sizeInBytes": LONG}),
    "checkpointMetadata": pa.struct({"version": LONG}),
}
_MAPS = ("partitionValues", "configuration")


def add(path: str, **fields: Any) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, "size": 1, **fields}}


def table(rows: Any, types: dict[str, pa.DataType] = TYPES) -> pa.Table:
    """Return checkpoint rows as a table, with a column for each kind of action that occurs."""
    names = [name for name in types if any(name in row for row in rows)]
    return pa.table({name: pa.array([_body(row.get(name)) for row in rows], types[name]) for name in names})


def _body(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    return {key: list(v.items()) if key in _MAPS and isinstance(v, dict) else v for key, v in body.items()}
