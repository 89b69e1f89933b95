"""A word as a table on disk: its last operation, by the builders of scenarios, on the table of the word before it.

Each word has a table of its own. Those of Iceberg share a directory, since a metadata file is a table: what two words
write has different names there. Those of Delta have a directory each, with links to what they have in common.
"""

import copy
import itertools
import os
import pickle
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from model import File, Table
from words import Word

from harness.suite.scenarios.building import begin
from harness.suite.scenarios.delta.history import DeltaHistory
from harness.suite.scenarios.iceberg.history import IcebergHistory
from harness.suite.scenarios.iceberg.writes import IcebergWrites
from harness.suite.scenarios.model import Scenario, Selector
from harness.writing.iceberg.builder import IcebergTable

SCHEMA = {"k": "int", "p": "string", "v": "int"}
_BEGUN: Mapping[str, dict[str, Any]] = {
    **{f"iceberg-{v}": {"schema": SCHEMA, "format-version": v, "metadata-names": "uuid"} for v in (1, 2, 3)},
    "delta": {"schema": SCHEMA, "partition-columns": ["p"], "column-mapping": "name", "features": ["deletionVectors"]},
}
_CHECKPOINTS: Mapping[str, dict[str, Any]] = {
    "checkpoint-classic": {"kind": "classic"},
    "checkpoint-parts": {"kind": "multi-part", "parts": 2},
    "checkpoint-v2": {"kind": "v2-parquet", "sidecars": 2},
    "checkpoint-json": {"kind": "v2-json", "sidecars": 1},
}
_NAMES = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Built:
    """A word's table. history: its builder; operations: as in the file of a scenario."""

    word: Word
    table: Table
    history: IcebergHistory | DeltaHistory = field(repr=False)
    operations: tuple[Mapping[str, Any], ...] = ()

    @property
    def address(self) -> str:
        return str(self.history.metadata_path or self.history.location)

    def selector(self, place: int) -> Selector:
        """The point of the history that a snapshot of the model is."""
        return Selector("version", place) if self.table.is_delta else Selector("snapshot", f"s{place}")

    def scenario(self, **more: Any) -> Scenario:
        """What makes this table from its beginning."""
        title = f"A small history: {', '.join(self.word)}"
        given = {"clauses": (), "features": (), "path": None, "table": _BEGUN[self.table.kind], **more}
        format_ = "delta" if self.table.is_delta else "iceberg"
        return Scenario(name="-".join(self.word), title=title, format=format_, history=self.operations, **given)


def begun(table: Table, directory: Path) -> Built:
    """The table of the word without letters."""
    first = Built((), table, history=None)  # type: ignore[arg-type]
    return replace(first, history=begin(first.scenario(expectations=()), directory / "0"))


def grown(before: Built, word: Word, table: Table, directory: Path) -> Built:
    """The table of a word, from that of the word without its last letter, which stays as it is."""
    history = _forked(before.history, directory / str(next(_NAMES)))
    operations = list(_operations(before.table, word[-1], table, history))
    for operation in operations:
        history.apply(operation)
    return Built(word, table, history, (*before.operations, *operations))


def _forked(history: IcebergHistory | DeltaHistory, directory: Path) -> IcebergHistory | DeltaHistory:
    """A history that goes on from here; what it writes does not touch what the other has written."""
    if isinstance(history, DeltaHistory):
        forked = pickle.loads(pickle.dumps(history))
        shutil.copytree(history.location, directory, copy_function=_linked)
        table = forked.table
        for handle in table.handles:
            handle.file = directory / handle.file.relative_to(table.directory)
        table.directory = table.origin = table.within = directory
        table.log.directory = directory / "_delta_log"
        return forked
    forked = copy.copy(history)
    forked.table, forked.commits = forked_table(history.table), dict(history.commits)
    forked.writes = IcebergWrites(forked.table)
    forked.writes.files, forked.writes.written = dict(history.files), list(history.writes.written)
    return forked


def forked_table(table: IcebergTable) -> IcebergTable:
    """A table that goes on from here, in the same directory, under names of its own."""
    forked, forked.store = copy.copy(table), copy.copy(table.store)
    forked.document = pickle.loads(pickle.dumps(table.document))
    forked._files = forked.store._versions = 1000 * next(_NAMES)
    forked.store._avro = _Manifests(table.store._avro)
    return forked


class _Manifests(dict[str, Any]):
    """Manifests by path, which are named after how many there are: here, of all tables."""

    def __len__(self) -> int:
        return next(_NAMES)


def _linked(source: str, target: str) -> None:
    """A file of the log may be written again under its name, and must not change in the other table."""
    (shutil.copy2 if "/_delta_log/" in source else os.link)(source, target)


def _operations(before: Table, letter: str, after: Table, history: Any) -> Iterator[dict[str, Any]]:
    match letter:
        case "add-column":
            new = after.columns[-1]
            default = {} if new.default is None else {"initial-default": new.default}
            yield {"add-column": {"name": new.name, "type": "int", **default}}
        case "drop-column":
            yield {"drop-column": before.columns[-1].name}
        case "rename":
            yield {"rename-column": {"path": before.columns[0].name, "to": after.columns[0].name}}
        case "respec":
            yield {"partition-spec": [["p", "identity"]] if after.is_partitioned else []}
        case "rollback":
            yield {"set-ref": {"name": "main", "at": f"s{after.current}"}}
        case "checksum":
            yield {"checksum": after.current}
        case "compact-log":
            yield {"compact": [after.current - 1, after.current]}
        case "expire-log":
            yield {"expire-log": after.first}
        case "vacuum":
            yield {"vacuum": None}
        case _ if letter in _CHECKPOINTS:
            if after.has_v2 and not before.has_v2:
                yield {"configuration": {"delta.checkpointPolicy": "v2"}}
            yield {"checkpoint": _CHECKPOINTS[letter]}
        case _:
            change = _DeltaChange if after.is_delta else _IcebergChange
            yield {"commit": {**change(before, after, history).commit(letter), "operation": _OPERATION[letter]}}


_OPERATION = {
    **dict.fromkeys(("append", "append-null"), "append"),
    **dict.fromkeys(
        ("delete-first", "delete-last", "delete-each", "delete-equal", "delete-null", "drop-file"), "delete"
    ),
    **dict.fromkeys(("upsert", "restore"), "overwrite"),
    **dict.fromkeys(("compact", "compact-old"), "replace"),
}


@dataclass(frozen=True)
class _Change:
    """What a commit of the model has to write."""

    before: Table
    after: Table
    history: Any

    def new(self) -> list[File]:
        known = self.before.files
        return [file for file in self.after.now.files if file.label not in known]

    def removed(self) -> list[str]:
        kept = {file.label for file in self.after.now.files}
        return [file.label for file in self.before.now.files if file.label not in kept]

    def marked(self) -> list[tuple[File, frozenset[int]]]:
        """Files with positions that this commit deletes, and these."""
        before = {file.label: file.dead for file in self.before.now.files}
        now = ((file, file.dead - before.get(file.label, frozenset())) for file in self.after.now.files)
        return [(file, dead) for file, dead in now if dead and file.marked == self.after.commits]

    def data(self, file: File) -> dict[str, Any]:
        rows = [[row[c.id] for c in self.after.columns] for row in file.contents]
        return {"data": file.label, "rows": rows}


class _IcebergChange(_Change):
    def commit(self, letter: str) -> dict[str, Any]:
        number, new = self.after.commits, self.new()
        adds = [self.data(file) for file in new]
        removes = self.removed()
        if self.after.kind == "iceberg-3":
            vectors = {file.label: sorted(file.dead) for file, _ in self.marked()}
            removes += [vector for label in vectors if (vector := self._vector(label)) is not None]
            adds += [{"deletion-vectors": vectors, "label": f"v{number}"}] if vectors else []
        else:
            scopes: dict[Any, list[list[Any]]] = {}
            for file, dead in self.marked():
                scopes.setdefault(file.scope, []).extend([file.label, i] for i in sorted(dead))
            adds += [{"position-deletes": pairs, "label": f"d{number}{i}"} for i, pairs in enumerate(scopes.values())]
        for kill in self.after.now.kills[len(self.before.now.kills) :]:
            partition = {} if kill.scope is None else {"partition": {"p": kill.scope[1]}}
            key = self.after.columns[0].name
            adds.append({"equality-deletes": [key], "rows": [[kill.key]], "label": f"e{number}", **partition})
        kept = {"sequence-number": new[0].number} if letter == "compact-old" and new else {}
        return {"add": adds, "remove": removes, "as": f"s{self.after.current}", **kept}

    def _vector(self, label: str) -> str | None:
        """The label of the vector that the file has had."""
        file = next((file for file in self.before.now.files if file.label == label), None)
        if file is None or file.marked is None:
            return None
        several = f"v{file.marked}.{label}"
        return several if several in self.history.files else f"v{file.marked}"


class _DeltaChange(_Change):
    def commit(self, letter: str) -> dict[str, Any]:
        if letter == "restore":
            return self._restored()
        new = self.new()
        rows = {file.label: sorted(file.dead) for file, _ in self.marked() if file not in new}
        commit = {"add": [self.data(file) for file in new], "remove": self.removed()}
        more = {"data-change": False} if letter == "compact" else {}
        return {**commit, **({"delete-rows": rows} if rows else {}), **more}

    def data(self, file: File) -> dict[str, Any]:
        """The file; one that has a vector from the first has it in the log."""
        if not file.dead:
            return super().data(file)
        (vector,) = self.history.table.write_vectors({file.label: file.dead}, storage="i").values()
        stats = f'{{"numRecords":{len(file.contents)}}}'
        return {**super().data(file), "set": {"deletionVector": vector, "stats": stats}}

    def _restored(self) -> dict[str, Any]:
        before, last = {file.label: file for file in self.before.now.files}, self.before.files
        wanted = {file.label: file for file in self.after.now.files}
        changed = [label for label, file in wanted.items() if file != before.get(label)]
        plain = [
            label if wanted[label].dead == last[label].dead else {"file": label, "unset": ["deletionVector"]}
            for label in changed
        ]
        return {"add": plain, "remove": [label for label in before if before[label] != wanted.get(label)]}
