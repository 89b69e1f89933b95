"""A word as a table on disk: its last operations, by the builders of scenarios, on the table of the word before it.

Each word has a table of its own. Those of Iceberg share a directory, since a metadata file is a table: what two words
write has different names there. Those of Delta have a directory each, with links to what they have in common.
"""

import copy
import itertools
import os
import pickle
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drawn.models.model import TableModel
from letters import TABLES, Operation
from words import Word

from harness.suite.scenarios.building import create_history
from harness.suite.scenarios.delta.history import DeltaHistory
from harness.suite.scenarios.iceberg.history import IcebergHistory
from harness.suite.scenarios.iceberg.writes import IcebergWrites
from harness.suite.scenarios.model import Scenario
from harness.writing.iceberg.builder import IcebergTable

_NAMES = itertools.count(1)


@dataclass(frozen=True, eq=False)
class EnumeratedTable:
    """A word's table. history: its builder; operations: as in the file of a scenario."""

    word: Word
    model: TableModel
    history: IcebergHistory | DeltaHistory = field(repr=False)
    operations: tuple[Mapping[str, Any], ...] = ()

    @property
    def address(self) -> str:
        return str(self.history.metadata_path or self.history.location)

    def scenario(self, **more: Any) -> Scenario:
        """What makes this table from its beginning."""
        title = f"A small history: {', '.join(self.word)}"
        given = {"clauses": (), "features": (), "path": None, "format": self.model.format, **more}
        table = TABLES[self.model.kind]
        return Scenario(name="-".join(self.word), title=title, table=table, history=self.operations, **given)


def begin_table(model: TableModel, directory: Path) -> EnumeratedTable:
    """The table of the word without letters."""
    first = EnumeratedTable((), model, history=None)  # type: ignore[arg-type]
    return replace(first, history=create_history(first.scenario(expectations=()), directory / "0"))


def extend_table(
    before: EnumeratedTable, word: Word, model: TableModel, operations: Sequence[Operation], directory: Path
) -> EnumeratedTable:
    """The table of a word, from that of the word without its last letter, which stays as it is."""
    history = _fork(before.history, directory / str(next(_NAMES)))
    done = [_with_vectors(operation, history) for operation in operations]
    for operation in done:
        history.apply(operation)
    return EnumeratedTable(word, model, history, (*before.operations, *done))


def _with_vectors(operation: Operation, history: IcebergHistory | DeltaHistory) -> Operation:
    """The operation as in a scenario: a file that has dead rows from the first has its vector in the log."""
    (value,) = operation.values()
    if not isinstance(history, DeltaHistory) or not isinstance(value, dict) or "add" not in value:
        return operation
    return {"commit": {**value, "add": [_with_vector(spec, history) for spec in value["add"]]}}


def _with_vector(spec: Any, history: DeltaHistory) -> Any:
    if "dead" not in spec:
        return spec
    given = {key: value for key, value in spec.items() if key != "dead"}
    (vector,) = history.table.write_vectors({spec["data"]: frozenset(spec["dead"])}, storage="i").values()
    stats = f'{{"numRecords":{len(spec["rows"])}}}'
    return {**given, "set": {"deletionVector": vector, "stats": stats}}


def _fork(history: IcebergHistory | DeltaHistory, directory: Path) -> IcebergHistory | DeltaHistory:
    """A history that goes on from here; what it writes does not touch what the other has written."""
    if isinstance(history, DeltaHistory):
        forked = pickle.loads(pickle.dumps(history))
        shutil.copytree(history.location, directory, copy_function=_link)
        table = forked.table
        for handle in table.handles:
            handle.file = directory / handle.file.relative_to(table.directory)
        table.directory = table.origin = table.allowed_directory = directory
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


def _link(source: str, target: str) -> None:
    """A file of the log may be written again under its name, and must not change in the other table."""
    (shutil.copy2 if "/_delta_log/" in source else os.link)(source, target)
