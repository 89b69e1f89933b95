"""The features of Delta tables and their proofs, which use the plans or the log on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from harness.metadata.model.schema import CHANGES
from harness.metadata.plan.scan_plan import ScanPlan
from harness.suite.scenarios.evidence import (
    LEGACY_FORM,
    DeltaLogOnDisk,
    Evidence,
    Feature,
    Proof,
    all_fields,
    footers,
    has_legacy_form,
    identities,
    proved_by_plan,
)
from harness.writing.delta.document import READER_FEATURES

_ACTIONS = {
    "add", "remove", "cdc", "metaData", "protocol", "txn", "commitInfo", "domainMetadata", "checkpointMetadata",
    "sidecar",
}  # fmt: skip
_WRITER_FEATURES = {
    "appendOnly", "invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults", "identityColumns",
    "changeDataFeed", "rowTracking", "domainMetadata", "clustering", "inCommitTimestamp", "icebergCompatV1",
    "icebergCompatV2",
}  # fmt: skip
_MAPPING = "delta.columnMapping.mode"


def _proved_by_log(shows: Callable[[DeltaLogOnDisk], bool]) -> Proof:
    return lambda evidence: shows(DeltaLogOnDisk(evidence))


def _deletion_vector(storage: str | None, magic: int | None = None) -> Proof:
    """Return a proof for a deletion vector with this storage type.

    If reads can be planned, it must apply to a planned file.
    """

    def proof(evidence: Evidence) -> bool:
        vectors = [
            a["deletionVector"] for a in DeltaLogOnDisk(evidence).actions_of_kind("add") if a.get("deletionVector")
        ]
        stored = any(storage is None or vector.get("storageType") == storage for vector in vectors)
        hits = any(plan.position_hits() for plan in evidence.plans)
        files = evidence.built.location.rglob("deletion_vector_*.bin")
        if magic is not None and not any(int.from_bytes(p.read_bytes()[5:9], "little") == magic for p in files):
            return False
        return stored and (hits or len(evidence.errors) > 0)

    return proof


def _checkpoint(kind: str) -> Proof:
    """Return a proof that the base of a read can be a checkpoint of this kind."""

    def shows(log: DeltaLogOnDisk) -> bool:
        for version in log.versions_read:
            below = [c for c in log.checkpoints if c.version <= version and c.kind != "unreadable" and log.is_whole(c)]
            newest = max((c.version for c in below), default=-1)
            if any(c.kind == kind for c in below if c.version == newest):
                return True
        return False

    return _proved_by_log(shows)


def _column_mapping(mode: str) -> Proof:
    def shows(log: DeltaLogOnDisk) -> bool:
        for version in log.versions_read:
            protocol = log.newest_action("protocol", version)
            active = protocol.get("minReaderVersion") == 2 or "columnMapping" in protocol.get("readerFeatures", ())
            if active and log.newest_action("metaData", version).get("configuration", {}).get(_MAPPING) == mode:
                return True
        return False

    return _proved_by_log(shows)


def _inert_mapping(log: DeltaLogOnDisk) -> bool:
    annotated = any("delta.columnMapping.id" in f["metadata"] for schema in log.schemas for _, f in all_fields(schema))
    return annotated and not any(
        "columnMapping" in p.get("readerFeatures", ()) for p in log.actions_of_kind("protocol")
    )


def _evolves(differs: Callable[[dict[Any, Any], dict[Any, Any]], bool]) -> Proof:
    """Return a proof that two schemas of the log, an older and a newer one, differ in this way."""

    def shows(log: DeltaLogOnDisk) -> bool:
        fields_by_schema = [identities(schema) for schema in log.schemas]
        return any(differs(old, new) for i, old in enumerate(fields_by_schema) for new in fields_by_schema[i + 1 :])

    return _proved_by_log(shows)


def _is_renamed(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    return any(old[key][0][-1] != new[key][0][-1] for key in old.keys() & new.keys())


def _is_reordered(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    return [key for key in old if key in new] != [key for key in new if key in old]


def _is_widened(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    pairs = ((old[key][1], new[key][1]) for key in old.keys() & new.keys())
    return any(a["type"] != b["type"] and b["metadata"].get("delta.typeChanges") is not None for a, b in pairs)


def _any_field(holds: Callable[[dict[str, Any]], bool]) -> Proof:
    return _proved_by_log(lambda log: any(holds(f) for schema in log.schemas for _, f in all_fields(schema)))


def _tracks_rows(log: DeltaLogOnDisk) -> bool:
    on = (
        log.newest_action("metaData", v).get("configuration", {}).get("delta.enableRowTracking")
        for v in log.versions_read
    )
    return any(str(value).lower() == "true" for value in on)


def _row_tracking(plan: ScanPlan) -> bool:
    return any(f.name in ("_row_id", "_row_commit_version") for f in plan.columns)


def _moved_table(evidence: Evidence) -> bool:
    origin: Path | None = getattr(getattr(evidence.built.history, "table", None), "origin", None)
    return origin is not None and origin != evidence.built.location


def _read_under(earlier: Callable[[dict[str, Any]], bool]) -> Proof:
    return _proved_by_log(
        lambda log: any(earlier(log.newest_action("protocol", v)) for v in (*log.versions_read, log.latest))
    )


def _feature_names(protocol: dict[str, Any], who: str) -> set[str]:
    return set(protocol.get(f"{who}Features", ()))


def _stored_type(*names: str) -> Proof:
    """Return a proof that a planned file stores a column with one of these physical types or units."""

    def proof(evidence: Evidence) -> bool:
        for _, footer in footers(evidence):
            for i in range(footer.num_columns):
                column = footer.schema.column(i)
                if any(name in f"{column.physical_type} {column.logical_type}" for name in names):
                    return True
        return False

    return proof


def _footer(shows: Callable[[pq.FileMetaData], bool]) -> Proof:
    return lambda evidence: any(shows(footer) for _, footer in footers(evidence))


def _legacy_list(evidence: Evidence) -> bool:
    paths = (footer.schema.column(i).path for _, footer in footers(evidence) for i in range(footer.num_columns))
    return any(".list." in path and ".element" not in path for path in paths)


def _extra_column(evidence: Evidence) -> bool:
    """Return whether a planned file has a column that no schema of the table has."""
    schema_names = {
        name
        for schema in DeltaLogOnDisk(evidence).schemas
        for path, f in all_fields(schema)
        for name in (path[-1], f["metadata"].get("delta.columnMapping.physicalName"))
    }
    top = (set(footer.schema.to_arrow_schema().names) for _, footer in footers(evidence))
    return any(names - schema_names for names in top)


def _any_of(kind: str, holds: Callable[[dict[str, Any]], object] = lambda _: True) -> Proof:
    """Return a proof that the log has an action of this kind that satisfies a condition."""
    return _proved_by_log(lambda log: any(map(holds, log.actions_of_kind(kind))))


def _any_path(holds: Callable[[str], bool]) -> Proof:
    return _proved_by_log(lambda log: any(map(holds, log.paths)))


def _partition_texts(holds: Callable[[str | None], bool]) -> Proof:
    return _proved_by_log(
        lambda log: any(
            holds(text) for a in log.actions_of_kind("add") for text in (a.get("partitionValues") or {}).values()
        )
    )


def _twice_added(log: DeltaLogOnDisk) -> bool:
    committed = [
        a["add"]["path"] for actions in log.commits.values() for a in actions if "add" in a and "remove" not in a
    ]
    return len(committed) > len(set(committed))


_TABLE: dict[str, tuple[str, Proof]] = {
    # deletes
    "deletion-vector": ("a deletion vector applies to a file that is read", _deletion_vector(None)),
    "deletion-vector-relative": ("a deletion vector is in a file of the table's folder", _deletion_vector("u")),
    "deletion-vector-absolute": ("a deletion vector is in a file named by an absolute path", _deletion_vector("p")),
    "deletion-vector-inline": ("a deletion vector is stored in the log itself", _deletion_vector("i")),
    "deletion-vector-native": ("a deletion vector has the older bitmap format", _deletion_vector(None, 1681511376)),
    "removed-file": ("a file was removed", _any_of("remove")),
    "re-added-file": ("a file was added more than once", _proved_by_log(_twice_added)),
    "orphan-file": (
        "there is a Parquet file below the table that the log does not name",
        _proved_by_log(lambda log: bool(log.orphans())),
    ),
    "missing-file": (
        "a planned file is not in storage",
        lambda e: any(not Path(row["physical"].removeprefix("file://")).exists() for _, row in e.planned_files()),
    ),
    # the log
    "checkpoint-classic": ("the base of a read is a checkpoint in one Parquet file", _checkpoint("classic")),
    "checkpoint-multi-part": ("the base of a read is a checkpoint in parts", _checkpoint("multi-part")),
    "checkpoint-v2-parquet": ("the base of a read is a V2 checkpoint in Parquet", _checkpoint("v2-parquet")),
    "checkpoint-v2-json": ("the base of a read is a V2 checkpoint in JSON", _checkpoint("v2-json")),
    "checkpoint-sidecars": ("a checkpoint points to sidecars", _any_of("sidecar")),
    "incomplete-checkpoint": (
        "a part of a checkpoint is missing",
        _proved_by_log(lambda log: not all(map(log.is_whole, log.checkpoints))),
    ),
    "unreadable-checkpoint": (
        "a checkpoint cannot be decoded",
        _proved_by_log(lambda log: any(c.kind == "unreadable" for c in log.checkpoints)),
    ),
    "no-checkpoint": (
        "there is no readable checkpoint",
        _proved_by_log(lambda log: all(c.kind == "unreadable" for c in log.checkpoints)),
    ),
    "parsed-statistics": ("a checkpoint holds statistics as a struct", _any_of("add", lambda a: a.get("stats_parsed"))),
    "last-checkpoint": (
        "there is a `_last_checkpoint`",
        _proved_by_log(lambda log: (log.directory / "_last_checkpoint").exists()),
    ),
    "log-compaction": (
        "a compacted log file ends at or before a version that is read",
        _proved_by_log(
            lambda log: any(last <= version for _, last in log.compactions for version in log.versions_read)
        ),
    ),
    "checksum": ("there is a version checksum", _proved_by_log(lambda log: any(log.directory.glob("*.crc")))),
    "empty-log-file": (
        "a file of the log has no bytes",
        _proved_by_log(lambda log: any(p.stat().st_size == 0 for p in log.directory.glob("*.*"))),
    ),
    "expired-log": (
        "commits before the newest were removed",
        _proved_by_log(lambda log: len(log.commits) <= log.latest),
    ),
    "free-commit-info": (
        "commitInfo has a value with another type than writers use",
        _any_of("commitInfo", lambda i: not isinstance(i.get("isBlindAppend", True), bool)),
    ),
    "unknown-action": (
        "a commit has an action of unknown kind",
        _proved_by_log(lambda log: any(k not in _ACTIONS for _, k, _ in log.actions)),
    ),
    "moved-table": ("the table was moved after it was made", _moved_table),
    "time-travel": (
        "a version other than the newest is read",
        _proved_by_log(lambda log: log.versions_read[:1] < (log.latest,)),
    ),
    "in-commit-timestamp": (
        "commits hold their own time",
        _any_of("commitInfo", lambda i: i.get("inCommitTimestamp") is not None),
    ),
    "transaction": ("a commit names an application's transaction", _any_of("txn")),
    # paths
    "encoded-path": ("the path of an added file has escapes", _any_path(lambda p: "%" in p)),
    "absolute-path": ("the path of an added file is absolute", _any_path(lambda p: p.startswith("/") or ":/" in p)),
    "hidden-file-name": (
        "the name of an added file begins with `_` or `.`",
        _any_path(lambda p: p.rpartition("/")[2][:1] in ("_", ".")),
    ),
    # protocol
    "reader-version-3": ("the protocol names features", _read_under(lambda p: p.get("minReaderVersion") == 3)),
    "unsupported-reader-version": (
        "the reader version is above 3",
        _read_under(lambda p: p.get("minReaderVersion", 0) > 3),
    ),
    "unknown-reader-feature": (
        "the table requires a reader feature that the Delta protocol does not define",
        _read_under(lambda p: bool(set(p.get("readerFeatures", ())) - READER_FEATURES)),
    ),
    "unknown-writer-feature": (
        "the table requires a writer feature that the Delta protocol does not define",
        _read_under(lambda p: bool(set(p.get("writerFeatures", ())) - READER_FEATURES - _WRITER_FEATURES)),
    ),
    "one-sided-feature": (
        "a reader-writer feature is in only one list of the protocol",
        _read_under(lambda p: bool(READER_FEATURES & (_feature_names(p, "reader") ^ _feature_names(p, "writer")))),
    ),
    "misplaced-feature-list": (
        "the protocol has a list of reader features below reader version 3",
        _read_under(lambda p: p.get("readerFeatures") is not None and p["minReaderVersion"] < 3),
    ),
    "catalog-managed": (
        "commits are ratified by a catalog",
        _read_under(lambda p: "catalogManaged" in p.get("readerFeatures", ())),
    ),
    "staged-commit": (
        "a staged commit exists beside the log",
        _proved_by_log(lambda log: any(log.directory.glob("_*commits/*.json"))),
    ),
    "protocol-change": (
        "the protocol changed",
        _proved_by_log(lambda log: len({str(p) for p in log.actions_of_kind("protocol")}) > 1),
    ),
    # schema
    "add-column": ("a column or nested field was added", _evolves(lambda old, new: bool(new.keys() - old.keys()))),
    "drop-column": ("a column or nested field was dropped", _evolves(lambda old, new: bool(old.keys() - new.keys()))),
    "rename-column": ("a column or nested field was renamed under column mapping", _evolves(_is_renamed)),
    "move-column": ("a column or nested field was moved among its siblings", _evolves(_is_reordered)),
    "widen-column": ("a column or nested field got a wider type, recorded in its metadata", _evolves(_is_widened)),
    "column-mapping-name": ("columns are found by physical name", _column_mapping("name")),
    "column-mapping-id": ("columns are found by field id", _column_mapping("id")),
    "inert-column-mapping": (
        "fields have mapping annotations that the protocol does not allow",
        _proved_by_log(_inert_mapping),
    ),
    "timestamp-ntz": ("a column is a timestamp without zone", _any_field(lambda f: f["type"] == "timestamp_ntz")),
    "void-column": ("a column has the type void", _any_field(lambda f: f["type"] == "void")),
    "variant": ("a column is a variant", _any_field(lambda f: f["type"] == "variant")),
    "minimal-metadata": (
        "a metaData action lacks its optional fields",
        _any_of("metaData", lambda m: "createdTime" not in m),
    ),
    "required-column": ("a column is declared not nullable", _any_field(lambda f: f["nullable"] is False)),
    "odd-column-name": (
        "a column name is not a plain identifier",
        _any_field(lambda f: not (str(f["name"]).isidentifier() and str(f["name"]).isascii())),
    ),
    "legacy-timestamp": ("a file stores timestamps as INT96 or in milliseconds", _stored_type("INT96", "milliseconds")),
    "legacy-calendar": (
        "the footer of a file declares dates in the Julian calendar",
        _footer(lambda f: b"org.apache.spark.legacyDateTime" in (f.metadata or {})),
    ),
    "other-codec": (
        "a file has another compression than Snappy",
        _footer(lambda f: any(f.row_group(i).column(0).compression != "SNAPPY" for i in range(f.num_row_groups))),
    ),
    "legacy-list": ("a file has another name than `element` for the elements of a list", _legacy_list),
    "legacy-form": (LEGACY_FORM, has_legacy_form),
    "columnless-file": (
        "a file that is read has rows and no column",
        _footer(lambda f: f.num_columns == 0 and f.num_rows > 0),
    ),
    "extra-file-column": ("a file has a column that no schema has", _extra_column),
    # partitions, statistics
    "partition-values": ("files have partition values", _partition_texts(lambda text: True)),
    "null-partition-value": ("a partition value is null", _partition_texts(lambda text: text is None)),
    "escaped-partition-value": (
        "a partition value has characters that paths escape",
        _partition_texts(lambda text: any(c in (text or "") for c in ' /%:=#?*[{\\"')),
    ),
    "no-statistics": (
        "a file has no statistics",
        _any_of("add", lambda a: not (a.get("stats") or a.get("stats_parsed"))),
    ),
    "pruned-file": ("planning skips a live file", proved_by_plan(lambda plan: len(plan.skipped) > 0)),
    "filter": ("a read has a filter", proved_by_plan(lambda plan: plan.filter is not None)),
    "multi-row-group": ("a file that is read has several row groups", _footer(lambda f: f.num_row_groups > 1)),
    # rows that changed
    "change-data-feed": ("changes are read", proved_by_plan(lambda p: any(f.name in CHANGES for f in p.columns))),
    "change-files": ("a commit has change data files", _any_of("cdc")),
    "row-tracking": ("row ids or row commit versions are read", proved_by_plan(_row_tracking)),
    "materialized-row-ids": (
        "a file holds row ids",
        proved_by_plan(lambda plan: _row_tracking(plan) and bool(plan.materialized)),
    ),
    "row-tracking-enabled": ("the table tracks rows", _proved_by_log(_tracks_rows)),
    "broken": ("a read fails", lambda e: len(e.all_errors) > 0),
}
DELTA_FEATURES = {name: Feature(meaning, proof) for name, (meaning, proof) in _TABLE.items()}
"""Features by name. Names that Iceberg tables also have mean the same."""
