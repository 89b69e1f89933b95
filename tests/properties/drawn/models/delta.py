"""The model of a Delta table: the files of each version, and their deleted rows.

Spec: Delta, "Action Reconciliation", "Deletion Vectors", "Column Mapping", "Type Widening", "Partition Value
Serialization".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drawn.models.model import (
    Columns,
    DeleteKind,
    HeldRows,
    ModelCommit,
    ModelFile,
    Row,
    TableModel,
    column_at,
    stored_rows,
    visible_row,
)
from harness.metadata.model.schema import Type
from harness.suite.scenarios.model import Selector
from harness.writing.delta.types import schema_json, schema_of

EMPTY = ("", b"")
"""Partition values that the log stores in the same form as null."""


@dataclass(frozen=True, slots=True)
class ModelLiveFile:
    """A file of a version. `dead` contains the positions of its deletion vector, or None if it has no vector."""

    file: ModelFile
    dead: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A state of the table.

    Attributes:
        files: The files by label.
        arranges: Whether the commit only moved rows to other files.
        recorded: As in `ModelCommit`.
    """

    columns: Columns
    files: Mapping[str, ModelLiveFile]
    arranges: bool = False
    recorded: tuple[tuple[str, Columns, Row], ...] | None = None


class DeltaModel(TableModel):
    """A Delta table.

    Attributes:
        vacuumed: The labels of the data files that were deleted from the directory.
        vacuumed_feed: The last version whose change files were deleted from it.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        super().__init__()
        self.format, self.kind = "delta", "delta"
        self.columns = tuple(self.column(n, t) for n, t in table["schema"].items())
        self.partitions = tuple(column_at(self.columns, n).id for n in table.get("partition-columns", ()))
        self.mapped = table.get("column-mapping", "none") != "none"
        self.features = tuple(table.get("features", ()))
        self.versions = [ModelVersion(self.columns, {})]
        self.labels: frozenset[str] = frozenset()
        self.checkpoints: frozenset[int] = frozenset()
        self.first = 0
        self.vacuumed: frozenset[str] = frozenset()
        self.vacuumed_feed = 0

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.versions) - 1

    @property
    def current(self) -> ModelVersion:
        """The newest state."""
        return self.versions[-1]

    def apply(self, operation: Mapping[str, Any]) -> None:
        ((name, value),) = operation.items()
        match name:
            case "append":
                self._commit({"add": value})
            case "overwrite":
                self._commit({"add": value, "remove": list(self.current.files)})
            case "remove":
                self._commit({"remove": value})
            case "delete-rows":
                self._commit({"delete-rows": value})
            case "commit":
                self._commit(value)
            case "checkpoint":
                self.checkpoints |= {self.version}
            case "vacuum":
                self.vacuumed |= self.labels - self.current.files.keys()
                self.vacuumed_feed = self.version
            case "expire-log":
                self.first = max(self.first, value)
            case "compact" | "checksum" | "move-table":
                pass
            case "column-mapping" | "configuration":
                self.mapped = self.mapped or name == "column-mapping"
                self.versions.append(ModelVersion(self.columns, self.current.files))
            case _:
                self.columns = self.changed(name, value)
                self.versions.append(ModelVersion(self.columns, self.current.files))

    def points(self) -> list[Selector]:
        """Return every version that the log can still reconstruct and whose files exist, and the current state."""
        kept = [
            number
            for number, version in enumerate(self.versions)
            if number >= self.first and not self.vacuumed & version.files.keys()
        ]
        return [*(Selector("version", number) for number in kept), Selector()]

    def columns_at(self, at: Selector) -> Columns:
        return self.state(at).columns

    def rows(self, at: Selector) -> list[Row]:
        state = self.state(at)
        return [visible_row(state.columns, live.file.columns, row) for live, _, row in self.live(state)]

    def commits(self, end: Selector) -> list[ModelCommit]:
        last = self.version if end.value is None else int(end.value)  # type: ignore[arg-type]
        return [
            ModelCommit(
                name=number,
                parent=number - 1,
                operation="replace" if self.versions[number].arranges else "overwrite",
                before=self._held(self.versions[number - 1]),
                after=self._held(self.versions[number]),
                recorded=self.versions[number].recorded,
            )
            for number in range(max(self.first, 1), last + 1)
        ]

    def _held(self, version: ModelVersion) -> HeldRows:
        files = {label: live.file for label, live in version.files.items()}
        return HeldRows(files, frozenset((live.file.label, position) for live, position, _ in self.live(version)))

    def hiding(self, at: Selector) -> frozenset[DeleteKind]:
        """Return the kind `vectors` if a file has a deletion vector."""
        return frozenset("vectors" for live in self.state(at).files.values() if live.dead)

    def state(self, at: Selector) -> ModelVersion:
        """Return the version that a selector means."""
        return self.current if at.value is None else self.versions[int(at.value)]  # type: ignore[arg-type]

    def live(self, version: ModelVersion) -> list[tuple[ModelLiveFile, int, Row]]:
        """Return the rows that no vector deletes, with their file and position."""
        return [
            (live, position, row)
            for live in version.files.values()
            for position, row in enumerate(live.file.rows)
            if position not in (live.dead or ())
        ]

    def _commit(self, value: Mapping[str, Any]) -> None:
        files = dict(self.current.files)
        marked = value.get("delete-rows", {})
        for label, positions in marked.get("rows", marked).items():
            live = files[label]
            files[label] = ModelLiveFile(live.file, (live.dead or frozenset()) | frozenset(positions))
        for label in value.get("remove", []):
            del files[label]
        for spec in value.get("add", []):
            if isinstance(spec, str):
                files[spec] = self._earlier(spec)
            elif "file" in spec:  # a file without its earlier vector
                files[spec["file"]] = ModelLiveFile(self._earlier(spec["file"]).file)
            else:
                dead = frozenset(spec["dead"]) if "dead" in spec else None
                files[spec["data"]] = ModelLiveFile(self._written(spec), dead)
        self.labels |= files.keys()
        arranges = value.get("data-change") is False
        self.versions.append(ModelVersion(self.columns, files, arranges, self._recorded(value.get("changes"))))

    def _recorded(self, specs: Sequence[Mapping[str, Any]] | None) -> tuple[tuple[str, Columns, Row], ...] | None:
        """Return the rows of change files with their kinds of change."""
        if specs is None:
            return None
        return tuple(
            (kind, self.columns, row)
            for spec in specs
            for kind, row in zip(spec["change-type"], self._stored(spec["rows"]), strict=True)
        )

    def _earlier(self, label: str) -> ModelLiveFile:
        """Return a file as it was in the last version that contained it."""
        return next(v.files[label] for v in reversed(self.versions) if label in v.files)

    def _written(self, spec: Mapping[str, Any]) -> ModelFile:
        return ModelFile(spec["data"], self.columns, self._stored(spec["rows"]))

    def _stored(self, content: Sequence[Any]) -> tuple[Row, ...]:
        rows = stored_rows(self.columns, content)
        return tuple({i: None if i in self.partitions and v in EMPTY else v for i, v in row.items()} for row in rows)

    def partition_of(self, row: Row) -> tuple[Any, ...]:
        """Return the partition values of a row."""
        return tuple(row[i] for i in self.partitions)

    def spelt(self, text: str) -> tuple[Type, bool]:
        field = schema_of(schema_json({"c": text}), mapped=False).fields[0]
        return field.type, field.required
