"""Options that several commands share, and what they mean for `open_table`."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

import harness

if TYPE_CHECKING:
    from harness.table import Snapshot, Table


class Document(enum.Enum):
    """How a description is printed."""

    TEXT = "text"
    JSON = "json"


class TableFormat(enum.Enum):
    """What a table is."""

    ICEBERG = "iceberg"
    DELTA = "delta"


class Prune(enum.Enum):
    """What planning may skip."""

    OFF = "off"
    FILES = "files"
    ALL = "all"


Location: TypeAlias = Annotated[str, typer.Argument(metavar="TABLE", help="Table directory or metadata file.")]
Format: TypeAlias = Annotated[Document, typer.Option("--format", help="Text for people, or one JSON document.")]
PathMap: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--path-map", metavar="OLD=NEW", help="Replace a prefix of the recorded paths. Repeatable."),
]
StorageOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--storage-option", metavar="KEY=VALUE", help="Option for the file system (fsspec). Repeatable."),
]
AllowVersionGuess: TypeAlias = Annotated[
    bool,
    typer.Option("--allow-version-guess", help="In a directory without a version hint, take the highest version."),
]
PruneLevel: TypeAlias = Annotated[
    Prune | None,
    typer.Option("--prune", help="Skip nothing, files (the default), or manifests too."),
]
LenientDeletePartition: TypeAlias = Annotated[
    bool,
    typer.Option("--lenient-delete-partition", help="Position deletes hit files of any partition, by their path."),
]
AllowDuplicateFiles: TypeAlias = Annotated[
    bool, typer.Option("--allow-duplicate-files", help="Read a data file twice that is listed twice.")
]
FormatHint: TypeAlias = Annotated[
    TableFormat | None, typer.Option("--format-hint", help="What the table is; else the location tells.")
]
SnapshotId: TypeAlias = Annotated[
    int | None,
    typer.Option("--snapshot", metavar="ID", help="Read this snapshot (Delta: version) instead of the current one."),
]
Timestamp: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="TIME",
        help="Read what was current at this time: ISO 8601 (UTC if without an offset) or milliseconds since 1970.",
    ),
]
Ref: TypeAlias = Annotated[
    str | None, typer.Option("--ref", metavar="NAME", help="Read the snapshot of this branch or tag.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How tables are opened, as given on the command line."""

    path_map: list[str] | None
    storage_option: list[str] | None
    allow_version_guess: bool
    format_hint: TableFormat | None = None
    prune: Prune | None = None
    lenient_delete_partition: bool = False
    allow_duplicate_files: bool = False

    def open(self, location: str) -> Table:
        """The table at `location`.

        Raises:
            typer.BadParameter: a pair is not of the form OLD=NEW.
            HarnessError: see `harness.open_table`.
        """
        return harness.open_table(
            location,
            path_map=pairs(self.path_map, "--path-map") or None,
            storage_options=pairs(self.storage_option, "--storage-option") or None,
            allow_version_guess=self.allow_version_guess,
            **self._chosen(),
        )

    def _chosen(self) -> dict[str, Any]:
        """The reading options that the user gave."""
        chosen: dict[str, Any] = {} if self.prune is None else {"prune": self.prune.value}
        if self.format_hint is not None:
            chosen["format_hint"] = self.format_hint.value
        if self.lenient_delete_partition:
            chosen["lenient_delete_partition"] = True
        return chosen | ({"allow_duplicate_files": True} if self.allow_duplicate_files else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Which snapshot is read, as given on the command line; at most one is not None."""

    snapshot: int | None
    timestamp: str | None
    ref: str | None

    def is_current(self) -> bool:
        """Whether nothing was asked, so that the current snapshot is meant."""
        return self.snapshot is None and self.timestamp is None and self.ref is None

    def select(self, table: Table) -> Snapshot:
        """The snapshot of `table`.

        Raises:
            RequestError: more than one selector, or a text that is no time.
            SnapshotNotFoundError: no such snapshot.
        """
        timestamp = None if self.timestamp is None else point_in_time(self.timestamp)
        return table.snapshot(snapshot_id=self.snapshot, timestamp=timestamp, ref=self.ref)


def pairs(values: list[str] | None, option: str) -> dict[str, str]:
    """`KEY=VALUE` texts as a mapping, in the order given. The first `=` separates: a value may hold more of them.

    Raises:
        typer.BadParameter: no `=`, an empty key, or a key that is given twice.
    """
    result: dict[str, str] = {}
    for number, text in enumerate(values or (), 1):
        key, separator, value = text.partition("=")
        if not separator or not key:
            # The text itself is not shown: it may hold a secret.
            raise typer.BadParameter(f"{option} number {number} is not of the form NAME=VALUE")
        if key in result:
            raise typer.BadParameter(f"{option} {key!r} is given twice")
        result[key] = value
    return result


def point_in_time(text: str) -> int | str:
    """Digits as milliseconds since 1970 (UTC), any other text as it is: `Table.snapshot` reads it as ISO 8601."""
    return int(text) if text.removeprefix("-").isdecimal() else text
