"""The features of Iceberg tables and their proofs, which use the plans or the documents on disk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import RequestError
from harness.metadata.plan.scan_plan import ScanPlan
from harness.suite.scenarios.evidence import (
    LEGACY_FORM,
    Evidence,
    Feature,
    Proof,
    footers,
    has_legacy_form,
    proved_by_plan,
)
from harness.writing.iceberg.avro import manifest_list_schema, manifest_schema


def _has_field_ids(path: str, file_format: str) -> bool:
    """Return whether a data file has field ids. An unreadable file counts as a file with ids."""
    file = Path(path.removeprefix("file://"))
    try:
        match file_format:
            case "parquet":
                return b"PARQUET:field_id" in _all_metadata(pq.read_schema(file))
            case "avro":
                with file.open("rb") as content:
                    return '"field-id"' in json.dumps(fastavro.reader(content).writer_schema)
            case _:
                return b"iceberg.id" in file.read_bytes()
    except (OSError, ValueError, pa.ArrowException):
        return True


def _dangling_delete(evidence: Evidence) -> bool:
    used = {d.path for plan in evidence.plans for d in plan.equality_deletes}
    used |= {d.path for plan in evidence.plans for d, files in plan.position_hits() if files}
    listed = {f["file_path"] for f in evidence.files if f.get("content", 0) != 0}
    live = {row["path"] for _, row in evidence.planned_files()}
    targets = {f.get("referenced_data_file") for f in evidence.files} - {None}
    for file in evidence.files:
        if file.get("content") == 1 and file["file_format"].lower() == "parquet":
            rows = _rows(str(evidence.file_of(file["file_path"])), "parquet")
            targets |= {row.get("file_path") for row in rows}
    return bool(listed - used) or bool(targets - live)


def _is_columnless(file: Mapping[str, Any]) -> bool:
    path, file_format = Path(file["physical"].removeprefix("file://")), file["format"]
    match file_format:
        case "parquet":
            footer = pq.read_metadata(path)
            return bool(footer.num_columns == 0 and footer.num_rows > 0)
        case "avro":
            rows = _rows(file["physical"], file_format)
            return bool(rows) and not any(rows)
        case _:
            from pyarrow import orc

            stored = orc.ORCFile(path)
            return not len(stored.schema) and stored.nrows > 0


def _data_codec(evidence: Evidence) -> bool:
    return any(
        footer.row_group(g).column(c).compression != "ZSTD"
        for _, footer in footers(evidence)
        for g in range(footer.num_row_groups)
        for c in range(footer.num_columns)
    )


def _unusual_manifests(evidence: Evidence) -> bool:
    version = int(evidence.metadata.get("format-version", 2))
    usual, usual_entries = _fields(manifest_list_schema(version)), _fields(manifest_schema(version, ()))
    return any(_fields(schema) != usual for schema, _, _ in evidence.list_headers) or any(
        _fields(schema) != usual_entries for schema, _, _ in evidence.manifest_headers
    )


def _rows(physical: str, file_format: str) -> list[dict[str, Any]]:
    path = Path(physical.removeprefix("file://"))
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


def _fields(schema: object) -> frozenset[tuple[str, int | None]]:
    """Return the names and ids of all fields except in the partition tuple, whose names depend on the table."""
    names_and_ids: set[tuple[str, int | None]] = set()

    def visit(node: object) -> None:
        match node:
            case {"fields": fields, "name": name} if not str(name).endswith("r102"):
                for f in fields:
                    names_and_ids.add((f["name"], f.get("field-id")))
                    visit(f["type"])
            case {"items": items}:
                visit(items)
            case list():
                for branch in node:
                    visit(branch)
            case _:
                pass

    visit(schema)
    return frozenset(names_and_ids)


_TRANSFORMS = ("identity", "bucket", "truncate", "year", "month", "day", "hour", "void")


def _deletes(shows: Callable[[ScanPlan], bool], content: int) -> Proof:
    """Return a proof that deletes apply to a planned file, or are listed if planning fails."""
    planned = proved_by_plan(shows)
    return lambda e: planned(e) or bool(e.errors and any(f.get("content") == content for f in e.files))


def _sequence_boundary(evidence: Evidence) -> bool:
    files = list(evidence.numbered_files())
    deletes = [(number, m, f) for number, m, f in files if f.get("content") == 2]
    for data_number, listed, data in (each for each in files if each[2].get("content", 0) == 0):
        for manifest, file in ((m, f) for number, m, f in deletes if number == data_number):
            spec = manifest["partition_spec_id"]
            is_same = spec == listed["partition_spec_id"] and repr(file["partition"]) == repr(data["partition"])
            if is_same or all(f["transform"] == "void" for f in _spec(evidence, spec)):
                return True
    return False


def _spec(evidence: Evidence, spec_id: int) -> list[dict[str, Any]]:
    specs = evidence.metadata.get("partition-specs")
    if specs is None:  # a table of format version 1
        return list(evidence.metadata.get("partition-spec", []))
    return next((s["fields"] for s in specs if s["spec-id"] == spec_id), [])


def _hit_by(kind: str) -> Callable[[ScanPlan], bool]:
    return lambda plan: any(d.kind == kind and files for d, files in plan.position_hits())


def _hit_twice(plan: ScanPlan) -> bool:
    hits = Counter(i for d, files in plan.position_hits() if d.kind == "position delete file" for i in files)
    return any(count > 1 for count in hits.values())


def _reads(shows: Callable[[Mapping[str, Any]], bool]) -> Proof:
    """Return a proof that a planned file, given as its row of the plan, satisfies a condition."""
    return lambda evidence: any(shows(file) for _, file in evidence.planned_files())


def _scoped_delete(plan: ScanPlan) -> bool:
    places = set(plan.files["partition"].to_pylist())
    return any(d.partition is not None and places - {d.partition} for d in plan.equality_deletes)


def _several_specs(evidence: Evidence) -> bool:
    return any(len(set(plan.files["spec_id"].to_pylist())) > 1 for plan in evidence.plans) or (
        len({m["partition_spec_id"] for m in evidence.manifests}) > 1
    )


def _transforms(evidence: Evidence) -> set[str]:
    """Return the names of the transforms in the specs that manifests were written with."""
    used = {m["partition_spec_id"] for m in evidence.manifests}
    return {f["transform"].partition("[")[0] for spec in used for f in _spec(evidence, spec)}


def _ref(kind: str) -> Proof:
    return lambda e: any(r["type"] == kind and name != "main" for name, r in e.metadata.get("refs", {}).items())


def _expired(evidence: Evidence) -> bool:
    listed = {str(s.get("manifest-list")).rpartition("/")[2] for s in evidence.metadata.get("snapshots", [])}
    return any(path.name not in listed for path in (evidence.built.location / "metadata").glob("snap-*.avro"))


def _compaction(evidence: Evidence) -> bool:
    is_replacement = any(
        s.get("summary", {}).get("operation") == "replace" for s in evidence.metadata.get("snapshots", [])
    )
    numbers = ((e.get("sequence_number"), e.get("file_sequence_number")) for e in evidence.entries)
    keeps_sequence_number = any(number is not None and file is not None and number < file for number, file in numbers)
    return is_replacement or keeps_sequence_number


def _version(number: int) -> Proof:
    return lambda evidence: evidence.metadata.get("format-version") == number


def _schemas(evidence: Evidence) -> Iterator[tuple[dict[int, _FieldPlace], dict[int, _FieldPlace]]]:
    return pairwise([_places(s["fields"]) for s in evidence.metadata.get("schemas", [])])


_FieldPlace = tuple[tuple[int, ...], int, str, Any]
"""A field: the ids of its parents, its position among its siblings, its name, and the JSON of its type."""


def _places(fields: list[dict[str, Any]], parents: tuple[int, ...] = ()) -> dict[int, _FieldPlace]:
    places: dict[int, _FieldPlace] = {}
    for index, f in enumerate(fields):
        places[f["id"]] = (parents, index, f["name"], f["type"])
        places |= _places(_members(f["type"]), (*parents, f["id"]))
    return places


def _members(type_: object) -> list[dict[str, object]]:
    match type_:
        case {"type": "struct", "fields": fields}:
            return list(fields)
        case {"type": "list", "element-id": id_, "element": element}:
            return [{"id": id_, "name": "element", "type": element}]
        case {"type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value}:
            return [{"id": key_id, "name": "key", "type": key}, {"id": value_id, "name": "value", "type": value}]
        case _:
            return []


def _renamed(old: dict[int, _FieldPlace], new: dict[int, _FieldPlace]) -> set[int]:
    return {i for i in old.keys() & new.keys() if old[i][2] != new[i][2]}


def _reordered(old: dict[int, _FieldPlace], new: dict[int, _FieldPlace]) -> set[int]:
    common = old.keys() & new.keys()
    before = sorted(common, key=lambda i: (old[i][0], old[i][1]))
    after = sorted(common, key=lambda i: (new[i][0], new[i][1]))
    return {i for i, j in zip(before, after, strict=True) if i != j}


def _widened(old: dict[int, _FieldPlace], new: dict[int, _FieldPlace]) -> set[int]:
    common_ids = old.keys() & new.keys()
    return {
        i for i in common_ids if isinstance(old[i][3], str) and isinstance(new[i][3], str) and old[i][3] != new[i][3]
    }


_CHANGES = (
    lambda old, new: new.keys() - old.keys(),
    lambda old, new: old.keys() - new.keys(),
    _renamed,
    _reordered,
    _widened,
)


def _evolves(*changes: Callable[[dict[int, _FieldPlace], dict[int, _FieldPlace]], set[int]]) -> Proof:
    return lambda evidence: any(change(*pair) for pair in _schemas(evidence) for change in changes)


def _evolves_inside(evidence: Evidence) -> bool:
    return any(
        (new.get(i) or old[i])[0] and (set(old[i][0] if i in old else new[i][0]) & old.keys())
        for old, new in _schemas(evidence)
        for change in _CHANGES
        for i in change(old, new)
    )


def _readded(evidence: Evidence) -> bool:
    names: dict[tuple[tuple[int, ...], str], set[int]] = {}
    for schema in evidence.metadata.get("schemas", []):
        for id_, (parents, _, name, _) in _places(schema["fields"]).items():
            names.setdefault((parents, name), set()).add(id_)
    return any(len(ids) > 1 for ids in names.values())


def _name_mapping(evidence: Evidence) -> bool:
    return any(
        plan.name_mapping is not None and not _has_field_ids(file["physical"], file["format"])
        for plan, file in evidence.planned_files()
    )


_TABLE: dict[str, tuple[str, Proof]] = {
    "v1": ("the table has format version 1", _version(1)),
    "v2": ("the table has format version 2", _version(2)),
    "v3": ("the table has format version 3", _version(3)),
    "upgraded": (
        "a manifest was written under an older format version than the table's",
        lambda e: any(
            int(h.get("format-version", 9)) < e.metadata.get("format-version", 0) for _, _, h in e.manifest_headers
        ),
    ),
    "position-delete": (
        "a position delete file applies to a file that is read",
        _deletes(_hit_by("position delete file"), 1),
    ),
    "deletion-vector": ("a deletion vector applies to a file that is read", _deletes(_hit_by("deletion vector"), 1)),
    "equality-delete": (
        "an equality delete file applies to a file that is read",
        _deletes(lambda plan: len(plan.equality_deletes) > 0, 2),
    ),
    "sequence-boundary": (
        "an equality delete has a data file with the same sequence number in its scope",
        _sequence_boundary,
    ),
    "global-equality-delete": (
        "an equality delete without partition applies to a table with partitions",
        proved_by_plan(
            lambda p: (
                any(d.partition is None for d in p.equality_deletes) and any(place.values for place in p.partitions)
            )
        ),
    ),
    "partition-scoped-delete": (
        "there is an equality delete for one partition, and files of another are read",
        proved_by_plan(_scoped_delete),
    ),
    "null-key": (
        "an equality delete file holds a null",
        proved_by_plan(
            lambda plan: any(None in r.values() for d in plan.equality_deletes for r in _rows(d.physical, d.format))
        ),
    ),
    "shared-delete-file": (
        "one position delete file applies to several data files",
        proved_by_plan(lambda plan: any(len(files) > 1 for _, files in plan.position_hits())),
    ),
    "several-delete-files": ("several position delete files apply to one data file", proved_by_plan(_hit_twice)),
    "dangling-delete": ("a live delete file applies to no data file that is read", _dangling_delete),
    "multi-row-group": (
        "a Parquet file that is read has several row groups",
        lambda e: any(footer.num_row_groups > 1 for _, footer in footers(e)),
    ),
    "avro-file": ("an Avro data file is read", _reads(lambda file: file["format"] == "avro")),
    "orc-file": ("an ORC data file is read", _reads(lambda file: file["format"] == "orc")),
    "columnless-file": ("a file that is read has rows and no column", _reads(_is_columnless)),
    "data-codec": ("a Parquet file has another compression than zstd", _data_codec),
    "schema-evolution": ("the schema changed", _evolves(*_CHANGES)),
    "add-column": ("a column or nested field was added", _evolves(lambda old, new: new.keys() - old.keys())),
    "drop-column": ("a column or nested field was dropped", _evolves(lambda old, new: old.keys() - new.keys())),
    "rename-column": ("a column or nested field was renamed", _evolves(_renamed)),
    "move-column": ("a column or nested field was moved among its siblings", _evolves(_reordered)),
    "widen-column": ("a column or nested field got a wider type", _evolves(_widened)),
    "nested-evolution": ("a field inside a struct, list or map changed", _evolves_inside),
    "readded-column": ("a name was dropped and given to a new field", _readded),
    "initial-default": (
        "a field has an initial default",
        lambda e: '"initial-default"' in json.dumps(e.metadata.get("schemas", [])),
    ),
    "name-mapping": ("a file without field ids is read with the table's name mapping", _name_mapping),
    "legacy-form": (LEGACY_FORM, has_legacy_form),
    "no-field-ids": (
        "a file without field ids is read",
        _reads(lambda file: not _has_field_ids(file["physical"], file["format"])),
    ),
    "partition-evolution": ("files were written under several partition specs", _several_specs),
    **{
        f"transform-{name}": (f"files are partitioned by {name}", partial(lambda n, e: n in _transforms(e), name))
        for name in _TRANSFORMS
    },
    "branch": ("there is a branch beside main", _ref("branch")),
    "tag": ("there is a tag", _ref("tag")),
    "changes": ("changes are read", proved_by_plan(lambda plan: plan.lifetimes is not None)),
    "time-travel": (
        "a snapshot other than the current one is read",
        lambda e: any(plan.snapshot not in (None, e.metadata.get("current-snapshot-id")) for plan in e.plans),
    ),
    "expired-snapshot": ("a snapshot was removed from the metadata", _expired),
    "compaction": ("files were replaced, or kept an older sequence number", _compaction),
    "row-lineage": (
        "row ids are read from files that have them",
        proved_by_plan(
            lambda plan: (
                any(f.name in ("_row_id", "_last_updated_sequence_number") for f in plan.columns)
                and plan.files["first_row_id"].null_count < plan.files.num_rows
            )
        ),
    ),
    "moved-table": (
        "the table was moved after its metadata was written",
        lambda e: str(e.metadata.get("location", e.built.location)).removeprefix("file://") != str(e.built.location),
    ),
    "manifest-habits": ("a manifest or manifest list has unusual fields or names", _unusual_manifests),
    "manifest-codec": (
        "a manifest or manifest list has another compression than deflate",
        lambda e: any(codec != "deflate" for _, codec, _ in (*e.list_headers, *e.manifest_headers)),
    ),
    "gzip-metadata": (
        "the metadata file is compressed",
        lambda e: e.built.metadata_path is not None and e.built.metadata_path.read_bytes()[:2] == b"\x1f\x8b",
    ),
    "pruned-file": (
        "planning skips a live file, or a manifest",
        proved_by_plan(lambda plan: len(plan.skipped) > 0 or plan.counts.manifests_skipped > 0),
    ),
    "filter": ("a read has a filter", proved_by_plan(lambda plan: plan.filter is not None)),
    "broken": (
        "the table breaks the specification, and a read fails",
        lambda e: any(not isinstance(error, RequestError) for error in e.all_errors.values()),
    ),
}
ICEBERG_FEATURES = {name: Feature(meaning, proof) for name, (meaning, proof) in _TABLE.items()}
"""Features by name."""
