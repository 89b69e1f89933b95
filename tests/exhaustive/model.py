"""What a history must read as, by the plainest means: a table is a value, and each operation makes another of it.

    table = after(after(empty("iceberg-2"), "append"), "delete-equal")
    table.now.rows(table.columns)                                # [[2, "a", 1]]

Nothing of harness is imported. Spec: Iceberg, "Scan Planning"; Delta, "Action Reconciliation", "Deletion Vectors".
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

KEY, PART = 1, 2
Row = dict[int, int | str | None]  # values by the identity of the column
Scope = tuple[int, str | None]  # partition spec and value


@dataclass(frozen=True)
class Column:
    id: int
    name: str
    default: int | None = None  # of rows in files without the column


@dataclass(frozen=True)
class Kill:
    """An equality delete of one key, or of rows without one. scope: None: everywhere."""

    number: int
    key: int | None
    scope: Scope | None


@dataclass(frozen=True)
class File:
    """number: its data sequence number. dead: positions of deleted rows; marked: the commit that said so last."""

    label: str
    number: int
    scope: Scope
    contents: tuple[Row, ...]
    dead: frozenset[int] = frozenset()
    marked: int | None = None


@dataclass(frozen=True)
class Snapshot:
    """The state after a commit. parent: the place of the one before it."""

    columns: tuple[Column, ...]
    files: tuple[File, ...] = ()
    kills: tuple[Kill, ...] = ()
    parent: int | None = None

    def live(self) -> Iterator[tuple[File, int, Row]]:
        for file in self.files:
            for position, row in enumerate(file.contents):
                if position not in file.dead and not any(_hits(kill, file, row) for kill in self.kills):
                    yield file, position, row

    def rows(self, columns: Sequence[Column]) -> list[tuple[int | str | None, ...]]:
        return [tuple(row.get(c.id, c.default) for c in columns) for _, _, row in self.live()]


def _hits(kill: Kill, file: File, row: Row) -> bool:
    return kill.number > file.number and kill.scope in (None, file.scope) and kill.key == row[KEY]


@dataclass(frozen=True)
class Table:
    """columns: those of now. current: the place of the current snapshot. specs: how often the partition spec changed.
    first: the first version that the log tells; checkpoints: versions that have one; has_v2: whether these may be V2;
    gone: files that are no more.
    """

    kind: str
    columns: tuple[Column, ...]
    snapshots: tuple[Snapshot, ...] = ()
    current: int | None = None
    commits: int = 0
    specs: int = 0
    last_id: int = 3
    first: int = 0
    checkpoints: tuple[int, ...] = ()
    has_v2: bool = False
    gone: frozenset[str] = frozenset()

    @property
    def is_delta(self) -> bool:
        return self.kind == "delta"

    @property
    def is_partitioned(self) -> bool:
        return self.is_delta or self.specs % 2 == 1

    @property
    def now(self) -> Snapshot:
        return Snapshot(self.columns) if self.current is None else self.snapshots[self.current]

    @property
    def files(self) -> dict[str, File]:
        """Every file ever, by label, as it was last seen."""
        return {file.label: file for snapshot in self.snapshots for file in snapshot.files}

    def readable(self) -> list[int]:
        """The places of the snapshots that can be read."""
        places = range(self.first, len(self.snapshots))
        return [i for i in places if not any(file.label in self.gone for file in self.snapshots[i].files)]


def empty(kind: str) -> Table:
    columns = (Column(KEY, "k"), Column(PART, "p"), Column(3, "v"))
    table = Table(kind, columns)
    return replace(table, snapshots=(Snapshot(columns),), current=0) if table.is_delta else table


def after(table: Table, letter: str) -> Table | None:
    """The table after one more operation; None: there is nothing that it could act on."""
    now, live, (key, *others) = table.now, list(table.now.live()), table.columns
    match letter:
        case "append":
            return _commit(table, (*now.files, *_written(table, [(1, "a"), (2, "a"), (1, "b")])))
        case "append-null":
            return _commit(table, (*now.files, *_written(table, [(None, None), (2, "a")])))
        case "delete-first" if live:
            return _commit(table, _marked(table, live[:1]))
        case "delete-last" if live:
            return _commit(table, _marked(table, live[-1:]))
        case "delete-each" if live:
            return _commit(table, _marked(table, {file.label: (file, i, row) for file, i, row in live[::-1]}.values()))
        case "upsert":
            own = [
                replace(f, dead=frozenset({0}), marked=table.commits + 1) for f in _written(table, [(1, "a"), (1, "a")])
            ]
            if table.kind == "iceberg-2":
                return _commit(table, (*now.files, *own), _kill(table, 1, "a"))
            return _commit(table, (*_marked(table, [hit for hit in live if hit[2][KEY] == 1]), *own))
        case "delete-equal" if live:
            return _commit(table, now.files, _kill(table, 1, "a"))
        case "delete-null" if live:
            return _commit(table, now.files, _kill(table, None, None))
        case "compact" if now.files:
            return _commit(table, _grouped(table, [row for _, _, row in live], table.commits + 1))
        case "compact-old" if now.files:
            oldest = min(file.number for file in now.files)
            return _commit(table, _grouped(table, [row for _, _, row in live], oldest))
        case "drop-file" if now.files:
            return _commit(table, now.files[1:])
        case "add-column" if len(others) < 3:
            name = "w" if len(others) == 2 else "v"
            new = Column(table.last_id + 1, name, 7 if table.kind == "iceberg-3" else None)
            return _shown(replace(table, last_id=new.id), (*table.columns, new))
        case "drop-column" if len(others) > 1:
            return _shown(table, table.columns[:-1])
        case "rename":
            return _shown(table, (replace(key, name="key" if key.name == "k" else "k"), *others))
        case "respec":
            return replace(table, specs=table.specs + 1)
        case "rollback" if now.parent is not None:
            return replace(table, current=now.parent)
        case "restore" if now.parent in table.readable():
            wanted = table.snapshots[now.parent].files
            # The builder has no vector of a file but its last one to give back.
            is_there = all(not f.dead or f.dead == table.files[f.label].dead for f in wanted)
            return _commit(table, wanted) if is_there else None
        case "checkpoint-v2" | "checkpoint-json":
            upgraded = table if table.has_v2 else _commit(replace(table, has_v2=True), now.files)
            return replace(upgraded, checkpoints=(*table.checkpoints, upgraded.current))
        case "checkpoint-classic" | "checkpoint-parts" if letter == "checkpoint-classic" or not table.has_v2:
            return replace(table, checkpoints=(*table.checkpoints, table.current))
        case "checksum":
            return table
        case "compact-log" if table.current > table.first:
            return table
        case "expire-log" if max(table.checkpoints, default=0) > table.first:
            return replace(table, first=max(table.checkpoints))
        case "vacuum" if gone := table.files.keys() - {file.label for file in now.files} - table.gone:
            return replace(table, gone=table.gone | gone)
    return None


def _commit(table: Table, files: Iterable[File], *kills: Kill) -> Table:
    snapshot = Snapshot(table.columns, tuple(files), (*table.now.kills, *kills), table.current)
    snapshots = (*table.snapshots, snapshot)
    return replace(table, snapshots=snapshots, current=len(table.snapshots), commits=table.commits + 1)


def _shown(table: Table, columns: tuple[Column, ...]) -> Table:
    """With other columns; Delta commits them."""
    changed = replace(table, columns=columns)
    return _commit(changed, table.now.files) if table.is_delta else changed


def _written(table: Table, keys: Sequence[tuple[int | None, str | None]]) -> list[File]:
    """New files of rows with these keys and partitions; in all other columns, the number of the row."""
    count = sum(len(file.contents) for file in table.files.values())
    numbers = {c.id: None for c in table.columns if c.id not in (KEY, PART)}
    rows = [{KEY: key, PART: part, **dict.fromkeys(numbers, count + i)} for i, (key, part) in enumerate(keys)]
    return _grouped(table, rows, table.commits + 1)


def _grouped(table: Table, rows: Sequence[Row], number: int) -> list[File]:
    """The rows, in the columns of now, in a file for each partition."""
    groups: dict[str | None, list[Row]] = {}
    for row in rows:
        shown = {c.id: row.get(c.id, c.default) for c in table.columns}
        groups.setdefault(row[PART] if table.is_partitioned else None, []).append(shown)
    return [
        File(f"f{table.commits + 1}{'abc'[i]}", number, (table.specs, part), tuple(group))
        for i, (part, group) in enumerate(groups.items())
    ]


def _marked(table: Table, hits: Iterable[tuple[File, int, Row]]) -> list[File]:
    """The files, with these rows deleted by position."""
    dead: dict[str, set[int]] = {}
    for file, position, _ in hits:
        dead.setdefault(file.label, set()).add(position)
    return [
        replace(file, dead=file.dead | dead[file.label], marked=table.commits + 1) if file.label in dead else file
        for file in table.now.files
    ]


def _kill(table: Table, key: int | None, part: str | None) -> Kill:
    return Kill(table.commits + 1, key, (table.specs, part) if table.is_partitioned else None)
