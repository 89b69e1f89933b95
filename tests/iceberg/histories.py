"""Short texts for histories of Iceberg tables, and for the spans in their plans.

A history is a list of commits. A commit is a text of changes, separated by spaces:

    +a            adds data file `a`, with the ids 0 to 4
    +a/2          adds data file `a` of partition 2
    +p=a0,b1      adds position delete file `p`, which deletes row 0 of `a` and row 1 of `b`
    +p=a0!        adds a position delete file that names `a` as its only data file
    +v~a0,a1      adds deletion vector `v` of `a`
    +e:3          adds equality delete file `e`, which deletes rows of id 3; `+e:3/2` only in partition 2
    +x            adds a file again that was written before
    -a            removes the file `a`
    replace       sets the operation; so do append, overwrite, and delete
    merge         merges all manifests
    seq=1         sets the data sequence number of the added data files
    on=b          commits to branch `b`
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness
from harness.metadata.plan.deletes import DatedDelete
from harness.metadata.plan.lifetimes import BEFORE, ChangeMode, ChangeRange, Span
from harness.metadata.planned_scan import PlannedScan
from harness.writing.iceberg.builder import IcebergFile, IcebergTable

OPERATIONS = ("append", "overwrite", "delete", "replace")
_FORM = re.compile(r"\+(?P<name>\w+)(?:(?P<kind>[=~:])(?P<rows>[\w,]+))?(?:/(?P<part>\d+))?(?P<alone>!)?")


class History:
    """A table that is built from texts.

    Attributes:
        table: The table.
        files: The data and delete files by name.
        ids: The ids of the snapshots, in the order of the commits.
    """

    def __init__(self, directory: Path, *, version: int = 2, partitioned: bool = False) -> None:
        self.table = IcebergTable.create(directory / "t", {"id": "long", "part": "int"}, format_version=version)
        if partitioned:  # the first spec remains for global equality deletes
            self.table.set_partition_spec([("part", "identity")])
        self.files: dict[str, IcebergFile] = {}
        self.ids: list[int] = []

    def commit(self, *texts: str) -> History:
        """Commit each text."""
        for text in texts:
            words = text.split()
            options: dict[str, Any] = {"operation": next((w for w in words if w in OPERATIONS), None)}
            options["manifests"] = "merge" if "merge" in words else "keep"
            settings = dict(word.split("=") for word in words if word.startswith(("seq=", "on=")))
            options |= {"sequence_number": int(settings["seq"])} if "seq" in settings else {}
            options |= {"branch": settings["on"]} if "on" in settings else {}
            removed = [self.files[word[1:]] for word in words if word.startswith("-")]
            added = [file for word in words if word.startswith("+") for file in self.write(word)]
            self.ids.append(self.table.commit(add=added, remove=removed, **options))
        return self

    def write(self, word: str) -> Sequence[IcebergFile]:
        """Write a file. A name that was written before stands for the same file."""
        form = _FORM.fullmatch(word)
        assert form is not None, word
        name, kind, rows = form["name"], form["kind"], form["rows"]
        if name not in self.files:
            part = None if form["part"] is None else {"part": int(form["part"])}
            path = f"data/{name}.{'puffin' if kind == '~' else 'parquet'}"
            positions = [(self.files[row[0]], int(row[1:])) for row in rows.split(",")] if kind in ("=", "~") else []
            match kind:
                case "=":
                    referenced = positions[0][0] if form["alone"] else None
                    file = self.table.write_position_deletes(positions, referenced=referenced, path=path)
                case "~":
                    target = positions[0][0]
                    (file,) = self.table.write_deletion_vectors({target: [row for _, row in positions]}, path=path)
                case ":":
                    keys = [{"id": int(row)} for row in rows.split(",")]
                    spec_id = 0 if part is None else None
                    file = self.table.write_equality_deletes(["id"], keys, partition=part, path=path, spec_id=spec_id)
                case _:
                    column = self.table.schema.names()[1]  # it may have been renamed
                    values = [{"id": n, column: int(form["part"] or 0)} for n in range(5)]
                    file = self.table.write_data(values, path=path)
            self.files[name] = file
        return [self.files[name]]

    def plan(
        self,
        start: int | str | None = None,
        end: int | str | None = None,
        *,
        mode: ChangeMode | None = ChangeMode.CHANGELOG,
        inclusive: bool = False,
        keys: tuple[str, ...] | None = None,
        columns: tuple[str, ...] | None = None,
        where: str | None = None,
        **options: Any,
    ) -> PlannedScan:
        """Plan a range. A number stands for the snapshot of that commit."""
        from_, to = (self.ids[at] if isinstance(at, int) and at < len(self.ids) else at for at in (start, end))
        source = harness.open_table(str(self.table.store.directory), **options)._source
        return source.changes(ChangeRange(from_, to, inclusive, mode, keys), columns, where)


def span_text(span: Span) -> str:
    """Return a span like `0..2`, without the number of an open end."""
    return f"{'' if span.added == BEFORE else span.added}..{'' if span.removed is None else span.removed}"


def spans(plan: PlannedScan) -> list[str]:
    """Return a text for each data file of a plan: its name and span, then its deletes.

    For example, `a 0.. p 1..2 e 3..` is data file `a`, added by commit 0, with the position delete file or vector `p`
    from commit 1 to 2 and the equality delete file `e` from commit 3. A suspect is marked with a question mark.
    """
    lifetimes = plan.lifetimes
    assert lifetimes is not None
    lines = []
    for row, span in zip(plan.files.to_pylist(), lifetimes.files, strict=True):
        words = [f"{_name(row['path'])} {span_text(span)}"]
        if row["positions"] is not None:
            source: Any = plan.position_deletes.source(row["positions"])
            words += sorted(f"{_name(_path(plan, each))} {span_text(each.span)}" for each in source.deletes)
            words += [f"{_name(plan.position_deletes.files[index].path)}?" for index in source.suspects]
        words += sorted(
            f"{_name(plan.equality_deletes[index].path)} {span_text(lifetimes.equality_deletes[index])}"
            for index in plan.delete_sets[row["delete_set"]]
        )
        lines.append(" ".join(words))
    return sorted(lines)


def _path(plan: PlannedScan, delete: DatedDelete) -> str:
    source: Any = delete.source
    return str(plan.position_deletes.files[source].path if isinstance(source, int) else source.path)


def _name(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]
