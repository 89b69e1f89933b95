"""The model of an Iceberg table: which delete applies to which row, according to the specification.

Spec: Iceberg, "Scan Planning", "Delete Formats", "Sequence Numbers", "Schema Evolution".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from drawn.models.model import (
    Columns,
    DeleteKind,
    HeldRows,
    ModelCommit,
    ModelFile,
    Row,
    TableKind,
    TableModel,
    column_at,
    convert_value,
    identities,
    identity_of,
    leaf,
    stored_rows,
    visible_row,
)
from harness.metadata.model.schema import Field, Type
from harness.suite.scenarios.model import Selector
from harness.suite.scenarios.values import parse_value
from harness.writing.iceberg.document import result_type, transform_value
from harness.writing.iceberg.types import parse_type


@dataclass(frozen=True, slots=True)
class SpecColumn:
    """A field of a partition spec. `source` is the identity of the column."""

    source: int
    transform: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class ModelPositionDeletes:
    """Pairs of a data file's label and a position in the file."""

    label: str
    pairs: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """A deletion vector: the deleted positions of one data file."""

    label: str
    target: str
    positions: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class ModelEqualityDeletes:
    """An equality delete file: the rows that equal one of `rows` in the columns `keys` are deleted.

    Attributes:
        columns: The columns of the delete file.
    """

    label: str
    keys: tuple[int, ...]
    columns: Columns
    rows: tuple[Row, ...]


File: TypeAlias = ModelFile | ModelPositionDeletes | Vector | ModelEqualityDeletes


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A file in a snapshot.

    Attributes:
        sequence: The data sequence number.
        partition: Stored values in the order of the spec.
    """

    file: File
    sequence: int
    spec: int
    partition: tuple[Any, ...]

    @property
    def scope(self) -> tuple[Any, ...]:
        """The spec and partition that a delete has in common with the files that it applies to."""
        return (self.spec, *map(identity_of, self.partition))


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """A state of the table.

    Attributes:
        files: The files by label.
        parent: The label of the previous snapshot. None for the first one.
        operation: The operation in the summary.
    """

    sequence: int
    columns: Columns
    files: Mapping[str, ModelEntry]
    parent: str | None = None
    operation: str = "append"


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or tag. `commit` is the label of its snapshot."""

    kind: Literal["branch", "tag"]
    commit: str


def _operation(value: Mapping[str, Any]) -> str:
    """Return the operation of a commit that does not name one: Iceberg, "Snapshots"."""
    added = [isinstance(spec, dict) and "data" in spec for spec in value.get("add", [])]
    if all(added) and not value.get("remove"):
        return "append"
    return "overwrite" if any(added) else "delete"


_KINDS: Mapping[int, TableKind] = {1: "iceberg-1", 2: "iceberg-2", 3: "iceberg-3"}


class IcebergModel(TableModel):
    """An Iceberg table. Every commit needs a label (`as`), and every delete file that is removed needs a `label`."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        super().__init__()
        self.format = "iceberg"
        self.version: int = table.get("format-version", 2)
        self.columns = tuple(self.column(n, t) for n, t in table["schema"].items())
        self.newest: dict[int, Field] = identities(self.columns)
        self.specs: list[tuple[SpecColumn, ...]] = []
        self._set_spec(table.get("partition-spec", []))
        self.snapshots: dict[str, ModelSnapshot] = {}
        self.expired: dict[str, ModelSnapshot] = {}
        self.refs: dict[str, Ref] = {}
        self.labels: frozenset[str] = frozenset()
        self._sequence = 0

    @property
    def kind(self) -> TableKind:  # type: ignore[override]
        return _KINDS[self.version]

    @property
    def spec(self) -> int:
        """The id of the default partition spec."""
        return len(self.specs) - 1

    @property
    def current(self) -> ModelSnapshot:
        """The current snapshot of `main`, which is empty before the first commit."""
        main = self.refs.get("main")
        return ModelSnapshot(0, self.columns, {}) if main is None else self.snapshots[main.commit]

    def apply(self, operation: Mapping[str, Any]) -> None:
        ((name, value),) = operation.items()
        match name:
            case "append":
                self._commit({"add" if k == "files" else k: v for k, v in value.items()})
            case "compact":
                options = {"add" if k == "files" else k: v for k, v in value.items()}
                self._commit({"operation": "replace", **options})
            case "overwrite":
                removed = list(self.current.files)
                self._commit({"add": value["files"], "as": value["as"], "remove": removed, "operation": name})
            case "commit":
                self._commit(value)
            case "tag" | "branch":
                self.refs[value["name"]] = Ref(name, value.get("at", self.refs["main"].commit))
            case "set-ref":
                self.refs[value["name"]] = Ref(value.get("kind", "branch"), value["at"])
            case "expire":
                self.expired[value] = self.snapshots.pop(value)
            case "partition-spec":
                self._set_spec(value)
            case "upgrade":
                self.version = value
            case _:
                self.columns = self.changed(name, value)
                self.newest |= identities(self.columns)

    def spelt(self, text: str) -> tuple[Type, bool]:
        return parse_type(text)

    def points(self) -> list[Selector]:
        """Return every snapshot, every branch and tag, and the current state."""
        if not self.snapshots:
            return [Selector()]
        snapshots = [Selector("snapshot", label) for label in self.snapshots]
        return [*snapshots, *(Selector("ref", name) for name in self.refs), Selector()]

    def columns_at(self, at: Selector) -> Columns:
        """Return the columns of a snapshot. Branches and the current state have the current columns."""
        match at.kind:
            case "snapshot":
                return self.snapshots[str(at.value)].columns
            case "ref" if self.refs[str(at.value)].kind == "tag":
                return self.snapshots[self.refs[str(at.value)].commit].columns
            case _:
                return self.columns

    def rows(self, at: Selector) -> list[Row]:
        columns = self.columns_at(at)
        return [visible_row(columns, file.columns, row) for _, file, _, row in self.live(self.state(at))]

    def hiding(self, at: Selector) -> frozenset[DeleteKind]:
        return frozenset(kind for *_, kinds in self._apply_deletes(self.state(at)) for kind in kinds)

    def state(self, at: Selector) -> ModelSnapshot:
        """Return the snapshot that a selector means."""
        match at.kind:
            case "snapshot":
                return self.snapshots[str(at.value)]
            case "ref":
                return self.snapshots[self.refs[str(at.value)].commit]
            case _:
                return self.current

    def commits(self, end: Selector) -> list[ModelCommit]:
        label, found = self.label_at(end), list[ModelCommit]()
        while label in self.snapshots:
            snapshot = self.snapshots[label]
            before = None if snapshot.parent is None else (self.snapshots | self.expired)[snapshot.parent]
            states = before or ModelSnapshot(0, snapshot.columns, {}), snapshot
            found.append(
                ModelCommit(
                    name=label,
                    parent=snapshot.parent,
                    operation=snapshot.operation,
                    before=self._held(states[0]),
                    after=self._held(states[1]),
                    uncovers=self._uncovers(*states),
                )
            )
            label = snapshot.parent
        return found[::-1]

    def label_at(self, at: Selector) -> str | None:
        """Return the label of the snapshot that a selector means. None before the first commit."""
        match at.kind:
            case "snapshot":
                return str(at.value)
            case "ref":
                return self.refs[str(at.value)].commit
            case _:
                return self.refs["main"].commit if "main" in self.refs else None

    def _held(self, snapshot: ModelSnapshot) -> HeldRows:
        files = {e.file.label: e.file for e in snapshot.files.values() if isinstance(e.file, ModelFile)}
        places = frozenset((file.label, position) for _, file, position, _ in self.live(snapshot))
        return HeldRows(files, places)

    def _uncovers(self, before: ModelSnapshot, after: ModelSnapshot) -> bool:
        """Return whether a commit removes a delete file, or the vector of a file that stays without a vector."""
        gone = [entry.file for label, entry in before.files.items() if label not in after.files]
        bare = after.files.keys() - {e.file.target for e in after.files.values() if isinstance(e.file, Vector)}
        return any(f.target in bare if isinstance(f, Vector) else not isinstance(f, ModelFile) for f in gone)

    def live(self, snapshot: ModelSnapshot) -> list[tuple[ModelEntry, ModelFile, int, Row]]:
        """Return the rows that no delete applies to, with their file, its entry, and their position."""
        return [
            (entry, file, place, row) for entry, file, place, row, kinds in self._apply_deletes(snapshot) if not kinds
        ]

    def _apply_deletes(
        self, snapshot: ModelSnapshot
    ) -> Iterator[tuple[ModelEntry, ModelFile, int, Row, set[DeleteKind]]]:
        """Yield every row of data files, with the kinds of deletes that apply to it."""
        entries = list(snapshot.files.values())
        for entry in entries:
            if isinstance(entry.file, ModelFile):
                for position, row in enumerate(entry.file.rows):
                    yield entry, entry.file, position, row, set(self._hits(entry, entry.file, position, row, entries))

    def _hits(
        self, data: ModelEntry, file: ModelFile, position: int, row: Row, entries: Sequence[ModelEntry]
    ) -> Iterator[DeleteKind]:
        vectors = [e for e in entries if isinstance(e.file, Vector) and e.file.target == file.label]
        for entry in entries:
            match entry.file:
                case Vector(target=target, positions=positions):
                    if target == file.label and position in positions and entry.sequence >= data.sequence:
                        yield "vectors"
                case ModelPositionDeletes(pairs=pairs):
                    newer = entry.sequence >= data.sequence and entry.scope == data.scope
                    if newer and not vectors and (file.label, position) in pairs:
                        yield "position deletes"
                case ModelEqualityDeletes():
                    newer = entry.sequence > data.sequence
                    if newer and self._in_scope(entry, data) and self._equals_one(entry.file, file, row):
                        yield "equality deletes"
                case ModelFile():
                    pass

    def _in_scope(self, delete: ModelEntry, data: ModelEntry) -> bool:
        is_global = all(c.transform == "void" for c in self.specs[delete.spec])
        return is_global or delete.scope == data.scope

    def _equals_one(self, delete: ModelEqualityDeletes, file: ModelFile, row: Row) -> bool:
        keys = [self._key(k, file.columns, row) for k in delete.keys]
        return any(keys == [self._key(k, delete.columns, dead) for k in delete.keys] for dead in delete.rows)

    def _key(self, key: int, columns: Columns, row: Row) -> Any:
        """Return the value of a key column in its newest type. In a file without the column, it is the default."""
        there = identities(columns).get(key)
        newest = self.newest[key]
        if there is None:
            return identity_of(newest.initial_default)
        return identity_of(convert_value(there.type, newest.type, leaf(columns, row, key)))

    def _commit(self, value: Mapping[str, Any]) -> None:
        branch = None if value.get("stage") else value.get("branch", "main")
        base = self.refs.get(branch or "main")
        files = {} if base is None else dict(self.snapshots[base.commit].files)
        if self.version > 1:
            self._sequence += 1
        sequence = self._sequence if self.version > 1 else 0
        for label in value.get("remove", []):
            del files[label]
        kept = value.get("sequence-number", sequence)
        data_sequence = self.snapshots[kept].sequence if isinstance(kept, str) else kept
        for spec in value.get("add", []):
            for file, spec_id, partition in self._written(spec, files):
                self.labels |= {file.label}
                number = data_sequence if isinstance(file, ModelFile) else sequence
                files[file.label] = ModelEntry(file, number, spec_id, partition)
        self.labels |= {value["as"]}
        parent = None if base is None else base.commit
        operation = value.get("operation") or _operation(value)
        self.snapshots[value["as"]] = ModelSnapshot(sequence, self.columns, files, parent, operation)
        if branch is not None:
            self.refs[branch] = Ref("branch", value["as"])

    def _written(
        self, spec: Mapping[str, Any] | str, files: Mapping[str, ModelEntry]
    ) -> list[tuple[File, int, tuple[Any, ...]]]:
        if isinstance(spec, str):
            earlier = self._entry(spec, files)
            return [(earlier.file, earlier.spec, earlier.partition)]
        spec_id = spec.get("spec-id", self.spec)
        if "data" in spec:
            rows = stored_rows(self._resolve_columns(spec.get("columns")), spec["rows"])
            row_ids = tuple(spec.get("row-ids", ()))
            file = ModelFile(spec["data"], self._resolve_columns(spec.get("columns")), rows, row_ids)
            return [(file, spec_id, self._partition(spec, spec_id, file))]
        if "position-deletes" in spec:
            pairs = frozenset((label, position) for label, position in spec["position-deletes"])
            (target, _), *_ = pairs
            entry = self._entry(target, files)
            return [(ModelPositionDeletes(spec["label"], pairs), entry.spec, entry.partition)]
        if "deletion-vectors" in spec:
            several = len(spec["deletion-vectors"]) > 1
            found: list[tuple[File, int, tuple[Any, ...]]] = []
            for target, positions in spec["deletion-vectors"].items():
                label = f"{spec['label']}.{target}" if several else spec["label"]
                entry = self._entry(target, files)
                found.append((Vector(label, target, frozenset(positions)), entry.spec, entry.partition))
            return found
        columns = self._resolve_columns(spec["equality-deletes"])
        deletes = ModelEqualityDeletes(
            spec["label"], tuple(c.id for c in columns), columns, stored_rows(columns, spec["rows"])
        )
        return [(deletes, spec_id, self._partition(spec, spec_id, None))]

    def _resolve_columns(self, names: Sequence[str] | None) -> Columns:
        by_name = {f.name: f for f in self.columns}
        return self.columns if names is None else tuple(by_name[n] for n in names)

    def _entry(self, label: str, files: Mapping[str, ModelEntry]) -> ModelEntry:
        """Return the entry of the file that a commit's deletes refer to: one of its own files, or one in the newest
        snapshot.
        """
        places = [files, *(s.files for s in reversed((self.expired | self.snapshots).values()))]
        return next(place[label] for place in places if label in place)

    def _partition(self, spec: Mapping[str, Any], spec_id: int, file: ModelFile | None) -> tuple[Any, ...]:
        parts = self.specs[spec_id]
        if "partition" in spec:
            return tuple(parse_value(self.partition_type(c), spec["partition"].get(c.name)) for c in parts)
        if file is None or not parts:
            return ()
        return self.partition_of(spec_id, file.columns, file.rows[0])

    def partition_type(self, column: SpecColumn) -> Type:
        """Return the type of a partition value."""
        return result_type(column.transform, self.newest[column.source].type)

    def partition_of(self, spec_id: int, columns: Columns, row: Row) -> tuple[Any, ...]:
        """Return the partition values of a row."""
        types = identities(columns)
        return tuple(
            transform_value(c.transform, types[c.source].type, leaf(columns, row, c.source))
            for c in self.specs[spec_id]
        )

    def _set_spec(self, entries: Sequence[Sequence[str]]) -> None:
        self.specs.append(tuple(SpecColumn(column_at(self.columns, s).id, t, n) for s, t, n in entries))
