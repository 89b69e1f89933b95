"""What the files of a built Iceberg table show: row groups, codecs, field ids, nulls in deletes, Avro schemas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from harness.testing.scenarios.evidence import Evidence
from harness.writing.iceberg.avro import manifest_list_schema, manifest_schema


def json_text(value: Any) -> str:
    """A document as JSON text."""
    return json.dumps(value)


def has_field_ids(path: str, file_format: str) -> bool:
    """Whether a data file carries field ids; what cannot be read has some."""
    file = Path(path.removeprefix("file://"))
    try:
        match file_format:
            case "parquet":
                return b"PARQUET:field_id" in _all_metadata(pq.read_schema(file))
            case "avro":
                with file.open("rb") as content:
                    return '"field-id"' in json_text(fastavro.reader(content).writer_schema)
            case _:
                return b"iceberg.id" in file.read_bytes()
    except (OSError, ValueError, pa.ArrowException):
        return True


def null_key(evidence: Evidence) -> bool:
    """Whether an equality delete file of a plan holds a null in a column."""
    for plan in evidence.plans:
        for delete in plan.equality_deletes:
            path = Path(delete.physical.removeprefix("file://"))
            if any(None in row.values() for row in _rows(path, delete.format)):
                return True
    return False


def several_delete_files(evidence: Evidence) -> bool:
    """Whether several position delete files may hit one planned file."""
    for plan in evidence.plans:
        hits = Counter(i for d in plan.position_deletes if d.kind == "position delete file" for i in d.files)
        if any(count > 1 for count in hits.values()):
            return True
    return False


def dangling_delete(evidence: Evidence) -> bool:
    """Whether a listed delete file hits no planned file, or names a path that no planned file has."""
    used = {d.path for plan in evidence.plans for d in plan.equality_deletes}
    used |= {d.path for plan in evidence.plans for d in plan.position_deletes if d.files}
    listed = {f["file_path"] for f in evidence.files if f.get("content", 0) != 0}
    live = {row["path"] for _, row in evidence.planned()}
    targets = {f.get("referenced_data_file") for f in evidence.files} - {None}
    for file in evidence.files:
        if file.get("content") == 1 and file["file_format"].lower() == "parquet":
            rows = _rows(evidence.file_of(file["file_path"]), "parquet")
            targets |= {row.get("file_path") for row in rows}
    return bool(listed - used) or bool(targets - live)


def several_row_groups(evidence: Evidence) -> bool:
    """Whether a planned Parquet file has more than one row group."""
    return any(footer.num_row_groups > 1 for footer in _footers(evidence))


def columnless_file(evidence: Evidence) -> bool:
    """Whether a planned file has rows and no column."""
    planned = ((Path(file["physical"].removeprefix("file://")), file["format"]) for _, file in evidence.planned())
    return any(_is_columnless(path, file_format) for path, file_format in planned)


def _is_columnless(path: Path, file_format: str) -> bool:
    match file_format:
        case "parquet":
            footer = pq.read_metadata(path)
            return bool(footer.num_columns == 0 and footer.num_rows > 0)
        case "avro":
            rows = _rows(path, file_format)
            return bool(rows) and not any(rows)
        case _:
            from pyarrow import orc

            file = orc.ORCFile(path)
            return not len(file.schema) and file.nrows > 0


def data_codec(evidence: Evidence) -> bool:
    """Whether a column chunk of a planned Parquet file is compressed otherwise than by zstd."""
    return any(
        footer.row_group(g).column(c).compression != "ZSTD"
        for footer in _footers(evidence)
        for g in range(footer.num_row_groups)
        for c in range(footer.num_columns)
    )


def unusual_manifests(evidence: Evidence) -> bool:
    """Whether a manifest or list has not exactly the fields, by name and id, that its format version gives."""
    versions = {int(evidence.metadata.get("format-version", 2))}
    usual = {_fields(manifest_list_schema(v)) for v in versions}
    usual_entries = {_fields(manifest_schema(v, ())) for v in versions}
    lists = (_fields(schema) for schema, _ in evidence.list_headers)
    entries = (_fields(schema) for schema, _ in evidence.manifest_schemas)
    return any(f not in usual for f in lists) or any(f not in usual_entries for f in entries)


def manifest_codec(evidence: Evidence) -> bool:
    """Whether a manifest or list is not compressed by deflate."""
    return any(codec != "deflate" for _, codec in (*evidence.list_headers, *evidence.manifest_schemas))


def compressed_metadata(evidence: Evidence) -> bool:
    """Whether the metadata file is gzip."""
    path = evidence.built.metadata_path
    return path is not None and path.read_bytes()[:2] == b"\x1f\x8b"


def _footers(evidence: Evidence) -> Iterator[pq.FileMetaData]:
    for _, file in evidence.planned():
        path = Path(file["physical"].removeprefix("file://"))
        if file["format"] == "parquet":
            try:
                yield pq.read_metadata(path)
            except (OSError, pa.ArrowException):
                continue  # a broken file shows nothing


def _rows(path: Path, file_format: str) -> list[dict[str, Any]]:
    try:
        match file_format:
            case "parquet":
                return list(pq.read_table(path).to_pylist())
            case "avro":
                with path.open("rb") as content:
                    return [row for row in fastavro.reader(content) if isinstance(row, dict)]
            case _:
                from pyarrow import orc

                return list(orc.read_table(path).to_pylist())
    except (OSError, ValueError, pa.ArrowException):
        return []


def _all_metadata(schema: pa.Schema) -> bytes:
    def visit(f: pa.Field) -> Iterator[bytes]:
        yield from (f.metadata or {})
        for i in range(f.type.num_fields):
            yield from visit(f.type.field(i))

    return b" ".join(key for f in schema for key in visit(f))


def _fields(schema: Any) -> frozenset[tuple[str, int | None]]:
    """Names and ids of all fields but those of the partition tuple, whose names are the table's."""
    found: set[tuple[str, int | None]] = set()

    def visit(node: Any) -> None:
        match node:
            case {"fields": fields, "name": name} if not str(name).endswith("r102"):
                for f in fields:
                    found.add((f["name"], f.get("field-id")))
                    visit(f["type"])
            case {"items": items}:
                visit(items)
            case list():
                for branch in node:
                    visit(branch)
            case _:
                pass

    visit(schema)
    return frozenset(found)
