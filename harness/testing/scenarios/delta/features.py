"""Features of Delta tables, and their proofs: in the plans, or in the log on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from harness.metadata.model.schema import CHANGES
from harness.metadata.plan.scan_plan import ScanPlan
from harness.testing.scenarios.evidence import (
    DeltaLogOnDisk,
    Evidence,
    Feature,
    Proof,
    all_fields,
    footers,
    identities,
    in_plans,
)
from harness.testing.writing.delta.document import READER_FEATURES

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


def _log(shows: Callable[[DeltaLogOnDisk], bool]) -> Proof:
    return lambda evidence: shows(DeltaLogOnDisk(evidence))


def _vector(storage: str | None, magic: int | None = None) -> Proof:
    """Proves a deletion vector of this storage type in the log, which hits a planned file if there is a plan."""

    def proof(evidence: Evidence) -> bool:
        found = [a["deletionVector"] for a in DeltaLogOnDisk(evidence).of_kind("add") if a.get("deletionVector")]
        stored = any(storage is None or vector.get("storageType") == storage for vector in found)
        hits = any(d.files for plan in evidence.plans for d in plan.position_deletes)
        files = evidence.built.location.rglob("deletion_vector_*.bin")
        if magic is not None and not any(int.from_bytes(p.read_bytes()[5:9], "little") == magic for p in files):
            return False
        return stored and (hits or len(evidence.errors) > 0)

    return proof


def _checkpoint(kind: str) -> Proof:
    """Proves that the newest checkpoint of a read version, or another of its version, has this kind."""

    def shows(log: DeltaLogOnDisk) -> bool:
        for version in log.versions_read:
            below = [c for c in log.checkpoints if c.version <= version and c.kind != "unreadable" and log.is_whole(c)]
            newest = max((c.version for c in below), default=-1)
            if any(c.kind == kind for c in below if c.version == newest):
                return True
        return False

    return _log(shows)


def _mapped(mode: str) -> Proof:
    def shows(log: DeltaLogOnDisk) -> bool:
        for version in log.versions_read:
            protocol = log.at("protocol", version)
            active = protocol.get("minReaderVersion") == 2 or "columnMapping" in protocol.get("readerFeatures", ())
            if active and log.at("metaData", version).get("configuration", {}).get(_MAPPING) == mode:
                return True
        return False

    return _log(shows)


def _inert_mapping(log: DeltaLogOnDisk) -> bool:
    annotated = any("delta.columnMapping.id" in f["metadata"] for schema in log.schemas for _, f in all_fields(schema))
    return annotated and not any("columnMapping" in p.get("readerFeatures", ()) for p in log.of_kind("protocol"))


def _evolves(differs: Callable[[dict[Any, Any], dict[Any, Any]], bool]) -> Proof:
    """Two schemas of the log, one after the other, differ so."""

    def shows(log: DeltaLogOnDisk) -> bool:
        known = [identities(schema) for schema in log.schemas]
        return any(differs(old, new) for i, old in enumerate(known) for new in known[i + 1 :])

    return _log(shows)


def _renamed(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    return any(old[key][0][-1] != new[key][0][-1] for key in old.keys() & new.keys())


def _moved(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    kept = [key for key in old if key in new]
    return kept != [key for key in new if key in old]


def _widened(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    def types(entry: Any) -> Any:
        return entry[1]["metadata"].get("delta.typeChanges"), entry[1]["type"]

    return any(
        types(old[key])[1] != types(new[key])[1] and types(new[key])[0] is not None for key in old.keys() & new.keys()
    )


def _any_field(holds: Callable[[dict[str, Any]], bool]) -> Proof:
    return _log(lambda log: any(holds(f) for schema in log.schemas for _, f in all_fields(schema)))


def _property(name: str) -> Proof:
    def shows(log: DeltaLogOnDisk) -> bool:
        on = (log.at("metaData", v).get("configuration", {}).get(name) for v in log.versions_read)
        return any(str(value).lower() == "true" for value in on)

    return _log(shows)


def _row_tracking(plan: ScanPlan) -> bool:
    return any(f.name in ("_row_id", "_row_commit_version") for f in plan.columns)


def _moved_table(evidence: Evidence) -> bool:
    origin: Path | None = getattr(getattr(evidence.built.history, "table", None), "origin", None)
    return origin is not None and origin != evidence.built.location


def _read_under(earlier: Callable[[dict[str, Any]], bool]) -> Proof:
    return _log(lambda log: any(earlier(log.at("protocol", v)) for v in (*log.versions_read, log.latest)))


def _named(protocol: dict[str, Any], who: str) -> set[str]:
    return set(protocol.get(f"{who}Features", ()))


def _stored_type(*names: str) -> Proof:
    """Proves that a planned file stores a column in one of these physical types or units."""

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


def _has_other_codec(footer: pq.FileMetaData) -> bool:
    return any(footer.row_group(i).column(0).compression != "SNAPPY" for i in range(footer.num_row_groups))


def _legacy_list(evidence: Evidence) -> bool:
    paths = (footer.schema.column(i).path for _, footer in footers(evidence) for i in range(footer.num_columns))
    return any(".list." in path and ".element" not in path for path in paths)


def _extra_column(evidence: Evidence) -> bool:
    """Proves that a planned file has a column of no schema of the table."""
    known = {
        name
        for schema in DeltaLogOnDisk(evidence).schemas
        for path, f in all_fields(schema)
        for name in (path[-1], f["metadata"].get("delta.columnMapping.physicalName"))
    }
    top = (set(footer.schema.to_arrow_schema().names) for _, footer in footers(evidence))
    return any(names - known for names in top)


def _partition_texts(holds: Callable[[str | None], bool]) -> Proof:
    return _log(
        lambda log: any(holds(text) for a in log.of_kind("add") for text in (a.get("partitionValues") or {}).values())
    )


def _twice_added(log: DeltaLogOnDisk) -> bool:
    committed = [
        a["add"]["path"] for actions in log.commits.values() for a in actions if "add" in a and "remove" not in a
    ]
    removed = {a["remove"]["path"] for actions in log.commits.values() for a in actions if "remove" in a}
    return len(committed) > len(set(committed)) or bool(
        removed & set(log.paths) and len(committed) > len(set(committed))
    )


DELTA_FEATURES: dict[str, Feature] = {
    # deletes
    "deletion-vector": Feature("a deletion vector hits a file that is read", _vector(None)),
    "deletion-vector-relative": Feature("a deletion vector is in a file of the table's folder", _vector("u")),
    "deletion-vector-absolute": Feature("a deletion vector is in a file named by an absolute path", _vector("p")),
    "deletion-vector-inline": Feature("a deletion vector stands in the log itself", _vector("i")),
    "deletion-vector-native": Feature("a deletion vector has the older bitmap format", _vector(None, 1681511376)),
    "removed-file": Feature("a file was removed", _log(lambda log: bool(log.of_kind("remove")))),
    "re-added-file": Feature("a file was added more than once", _log(_twice_added)),
    "orphan-file": Feature(
        "a Parquet file that the log does not name is below the table", _log(lambda log: bool(log.orphans()))
    ),
    "missing-file": Feature(
        "a planned file is not in storage",
        lambda e: any(not Path(row["physical"].removeprefix("file://")).exists() for _, row in e.planned()),
    ),
    # the log
    "checkpoint-classic": Feature("the base of a read is a checkpoint in one Parquet file", _checkpoint("classic")),
    "checkpoint-multi-part": Feature("the base of a read is a checkpoint in parts", _checkpoint("multi-part")),
    "checkpoint-v2-parquet": Feature("the base of a read is a V2 checkpoint in Parquet", _checkpoint("v2-parquet")),
    "checkpoint-v2-json": Feature("the base of a read is a V2 checkpoint in JSON", _checkpoint("v2-json")),
    "checkpoint-sidecars": Feature("a checkpoint points to sidecars", _log(lambda log: bool(log.of_kind("sidecar")))),
    "incomplete-checkpoint": Feature(
        "a part of a checkpoint is missing", _log(lambda log: not all(map(log.is_whole, log.checkpoints)))
    ),
    "unreadable-checkpoint": Feature(
        "a checkpoint cannot be decoded", _log(lambda log: any(c.kind == "unreadable" for c in log.checkpoints))
    ),
    "no-checkpoint": Feature(
        "there is no readable checkpoint", _log(lambda log: all(c.kind == "unreadable" for c in log.checkpoints))
    ),
    "parsed-statistics": Feature(
        "a checkpoint holds statistics as a struct",
        _log(lambda log: any(a.get("stats_parsed") for a in log.of_kind("add"))),
    ),
    "last-checkpoint": Feature(
        "there is a `_last_checkpoint`", _log(lambda log: (log.directory / "_last_checkpoint").exists())
    ),
    "log-compaction": Feature(
        "a compacted log file lies below a version that is read",
        _log(lambda log: any(last <= version for _, last in log.compactions for version in log.versions_read)),
    ),
    "checksum": Feature("there is a version checksum", _log(lambda log: any(log.directory.glob("*.crc")))),
    "empty-log-file": Feature(
        "a file of the log has no bytes",
        _log(lambda log: any(p.stat().st_size == 0 for p in log.directory.glob("*.*"))),
    ),
    "expired-log": Feature("commits below the newest are gone", _log(lambda log: len(log.commits) <= log.latest)),
    "free-commit-info": Feature(
        "commitInfo has a value of another type than writers give it",
        _log(lambda log: any(not isinstance(i.get("isBlindAppend", True), bool) for i in log.of_kind("commitInfo"))),
    ),
    "unknown-action": Feature(
        "a commit has an action of unknown kind", _log(lambda log: any(k not in _ACTIONS for _, k, _ in log.actions))
    ),
    "moved-table": Feature("the table is not where it was made", _moved_table),
    "time-travel": Feature(
        "a version other than the newest is read", _log(lambda log: log.versions_read[:1] < (log.latest,))
    ),
    "in-commit-timestamp": Feature(
        "commits hold their own time",
        _log(lambda log: any(i.get("inCommitTimestamp") is not None for i in log.of_kind("commitInfo"))),
    ),
    "transaction": Feature("a commit names an application's transaction", _log(lambda log: bool(log.of_kind("txn")))),
    # paths
    "encoded-path": Feature(
        "the path of an added file has escapes", _log(lambda log: any("%" in p for p in log.paths))
    ),
    "absolute-path": Feature(
        "the path of an added file is absolute",
        _log(lambda log: any(p.startswith("/") or ":/" in p for p in log.paths)),
    ),
    "hidden-file-name": Feature(
        "the name of an added file begins with `_` or `.`",
        _log(lambda log: any(p.rpartition("/")[2][:1] in ("_", ".") for p in log.paths)),
    ),
    # protocol
    "reader-version-3": Feature("the protocol names features", _read_under(lambda p: p.get("minReaderVersion") == 3)),
    "unsupported-reader-version": Feature(
        "the reader version is above 3", _read_under(lambda p: p.get("minReaderVersion", 0) > 3)
    ),
    "unknown-reader-feature": Feature(
        "the protocol asks readers for a feature that the protocol does not define",
        _read_under(lambda p: bool(set(p.get("readerFeatures", ())) - READER_FEATURES)),
    ),
    "unknown-writer-feature": Feature(
        "the protocol asks writers for a feature that the protocol does not define",
        _read_under(lambda p: bool(set(p.get("writerFeatures", ())) - READER_FEATURES - _WRITER_FEATURES)),
    ),
    "one-sided-feature": Feature(
        "a feature of readers and writers is in one list of the protocol only",
        _read_under(lambda p: bool(READER_FEATURES & (_named(p, "reader") ^ _named(p, "writer")))),
    ),
    "catalog-managed": Feature(
        "commits are ratified by a catalog", _read_under(lambda p: "catalogManaged" in p.get("readerFeatures", ()))
    ),
    "staged-commit": Feature(
        "a commit lies beside the log, staged", _log(lambda log: any(log.directory.glob("_*commits/*.json")))
    ),
    "protocol-change": Feature(
        "the protocol changed", _log(lambda log: len({str(p) for p in log.of_kind("protocol")}) > 1)
    ),
    # schema
    "add-column": Feature(
        "a column or nested field was added", _evolves(lambda old, new: bool(new.keys() - old.keys()))
    ),
    "drop-column": Feature(
        "a column or nested field was dropped", _evolves(lambda old, new: bool(old.keys() - new.keys()))
    ),
    "rename-column": Feature("a column or nested field was renamed under column mapping", _evolves(_renamed)),
    "move-column": Feature("a column or nested field was moved among its siblings", _evolves(_moved)),
    "widen-column": Feature("a column or nested field got a wider type, with its note", _evolves(_widened)),
    "column-mapping-name": Feature("columns are found by physical name", _mapped("name")),
    "column-mapping-id": Feature("columns are found by field id", _mapped("id")),
    "inert-column-mapping": Feature(
        "fields have mapping annotations that the protocol does not allow", _log(_inert_mapping)
    ),
    "timestamp-ntz": Feature(
        "a column is a timestamp without zone", _any_field(lambda f: f["type"] == "timestamp_ntz")
    ),
    "void-column": Feature("a column has the type void", _any_field(lambda f: f["type"] == "void")),
    "variant": Feature("a column is a variant", _any_field(lambda f: f["type"] == "variant")),
    "minimal-metadata": Feature(
        "a metaData action lacks what it may lack",
        _log(lambda log: any("createdTime" not in m for m in log.of_kind("metaData"))),
    ),
    "required-column": Feature("a column says that it has no nulls", _any_field(lambda f: f["nullable"] is False)),
    "odd-column-name": Feature(
        "a column name is no plain identifier",
        _any_field(lambda f: not (str(f["name"]).isidentifier() and str(f["name"]).isascii())),
    ),
    "legacy-timestamp": Feature(
        "a file stores timestamps as INT96 or in milliseconds", _stored_type("INT96", "milliseconds")
    ),
    "legacy-calendar": Feature(
        "the footer of a file says that its dates are of the old calendar",
        _footer(lambda f: b"org.apache.spark.legacyDateTime" in (f.metadata or {})),
    ),
    "other-codec": Feature("a file is compressed otherwise than by Snappy", _footer(_has_other_codec)),
    "legacy-list": Feature("a file calls the elements of a list otherwise than `element`", _legacy_list),
    "columnless-file": Feature(
        "a file that is read has rows and no column",
        _footer(lambda f: f.num_columns == 0 and f.num_rows > 0),
    ),
    "extra-file-column": Feature("a file has a column that no schema has", _extra_column),
    # partitions, statistics
    "partition-values": Feature("files have partition values", _partition_texts(lambda text: True)),
    "null-partition-value": Feature("a partition value is null", _partition_texts(lambda text: text is None)),
    "escaped-partition-value": Feature(
        "a partition value has characters that paths escape",
        _partition_texts(lambda text: any(c in (text or "") for c in ' /%:=#?*[{\\"')),
    ),
    "no-statistics": Feature(
        "a file has no statistics",
        _log(lambda log: any(not (a.get("stats") or a.get("stats_parsed")) for a in log.of_kind("add"))),
    ),
    "pruned-file": Feature("planning skips a live file", in_plans(lambda plan: len(plan.skipped) > 0)),
    "filter": Feature("a read has a filter", in_plans(lambda plan: plan.filter is not None)),
    "multi-row-group": Feature(
        "a file that is read has several row groups",
        _footer(lambda f: f.num_row_groups > 1),
    ),
    # rows that changed
    "change-data-feed": Feature("changes are read", in_plans(lambda p: any(f.name in CHANGES for f in p.columns))),
    "change-files": Feature("a commit has change data files", _log(lambda log: bool(log.of_kind("cdc")))),
    "row-tracking": Feature("row ids or row commit versions are read", in_plans(_row_tracking)),
    "materialized-row-ids": Feature(
        "a file holds row ids", in_plans(lambda plan: _row_tracking(plan) and bool(plan.materialized))
    ),
    "row-tracking-enabled": Feature("the table tracks rows", _property("delta.enableRowTracking")),
    "broken": Feature("a read fails", lambda e: len(e.all_errors) > 0),
}
"""Features by name; names that Iceberg tables have too mean the same."""
