"""The operations that a letter means for a table in the state of its model, as in a scenario.

If a commit writes a file and deletes rows of it, the positions are under the key `dead`, because scenarios cannot
express that.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from drawn.models.delta import DeltaModel
from drawn.models.iceberg import IcebergModel, Vector
from drawn.models.model import ModelFile, Row, TableModel, model_of, scenario_rows, visible_row

from harness.suite.scenarios.model import Selector

Operation: TypeAlias = dict[str, Any]
Live: TypeAlias = tuple[str, int, Row]
"""A row that no delete applies to: the label of its file, its position there, and its values in the current columns."""

SCHEMA = {"k": "int", "p": "string", "v": "int"}
TABLES: dict[str, dict[str, Any]] = {
    **{f"iceberg-{v}": {"schema": SCHEMA, "format-version": v, "metadata-names": "uuid"} for v in (1, 2, 3)},
    "delta": {
        "schema": SCHEMA,
        "partition-columns": ["p"],
        "column-mapping": "name",
        "features": ["deletionVectors"],
        "configuration": {"delta.enableChangeDataFeed": "true"},
    },
}
KEY, PART = 0, 1  # The positions of these columns, which never change.
CHECKPOINTS: dict[str, dict[str, Any]] = {
    "checkpoint-classic": {"kind": "classic"},
    "checkpoint-parts": {"kind": "multi-part", "parts": 2},
    "checkpoint-v2": {"kind": "v2-parquet", "sidecars": 2},
    "checkpoint-json": {"kind": "v2-json", "sidecars": 1},
}
V2 = ("checkpoint-v2", "checkpoint-json")


def empty(kind: str) -> TableModel:
    """Return the model of a table without rows."""
    return model_of("delta" if kind == "delta" else "iceberg", TABLES[kind])


def after(model: TableModel, operations: Iterable[Operation]) -> TableModel:
    """Return the model after some operations. The given model does not change."""
    forked = copy.copy(model)
    for name, value in vars(model).items():
        if isinstance(value, dict | list):
            setattr(forked, name, copy.copy(value))
    for operation in operations:
        forked.apply(operation)
    return forked


def operations(model: TableModel, word: Sequence[str], letter: str) -> list[Operation] | None:
    """Return the operations of one more letter, or None if the table has nothing that they could act on."""
    of_columns = _of_columns(model, letter)
    if of_columns is not None:
        return of_columns or None
    if isinstance(model, DeltaModel):
        return _of_delta(model, word, letter)
    assert isinstance(model, IcebergModel)
    return _of_iceberg(model, letter)


def _of_columns(model: TableModel, letter: str) -> list[Operation] | None:
    """Return changes of columns, an empty list if there is nothing to change, or None if the letter is not about
    columns.
    """
    key, _, *others = (column.name for column in model.columns)
    match letter:
        case "add-column":
            default = {"initial-default": 7} if model.kind == "iceberg-3" else {}
            name = "w" if others == ["v"] else "v"
            return [{letter: {"name": name, "type": "int", **default}}] if len(others) < 2 else []
        case "drop-column":
            return [{letter: others[-1]}] if others else []
        case "rename":
            return [{"rename-column": {"path": key, "to": "key" if key == "k" else "k"}}]
    return None


def _of_iceberg(model: IcebergModel, letter: str) -> list[Operation] | None:
    now = model.current
    data = {label: entry for label, entry in now.files.items() if isinstance(entry.file, ModelFile)}
    live = [(f.label, i, visible_row(model.columns, f.columns, row)) for _, f, i, row in model.live(now)]
    add: list[Operation] = []
    remove: list[str] = []
    more: dict[str, Any] = {}
    number = len(model.snapshots) + 1
    match letter:
        case "append" | "append-null":
            add = _appended(model, letter, number)
        case "delete-first" | "delete-last" | "delete-each" if live:
            add, remove = _hidden(model, _choose_rows(live, letter), number)
        case "upsert":
            add = _files(model, _new(model, [(1, "a"), (1, "a")]), number)
            hits = [(add[0]["data"], 0, {})]
            if model.version == 2:
                hidden, _ = _hidden(model, hits, number)
                add += [*hidden, _equality(model, 1, "a", number)]
            else:
                vectors, remove = _hidden(model, [*_of_key(model, live), *hits], number)
                add += vectors
        case "delete-equal" | "delete-null" if live:
            key = (1, "a") if letter == "delete-equal" else (None, None)
            add = [_equality(model, *key, number)]
        case "compact" | "compact-old" if data:
            add, remove = _files(model, [row for *_, row in live], number), list(data)
            if letter == "compact-old" and add:
                more = {"sequence-number": min(entry.sequence for entry in data.values())}
        case "drop-file" if data:
            remove = [next(iter(data))]
        case "respec":
            return [{"partition-spec": [] if _is_partitioned(model) else [["p", "identity", "p"]]}]
        case "rollback" if now.parent is not None:
            return [{"set-ref": {"name": "main", "at": now.parent}}]
        case _:
            return None
    return [_commit(letter, {"add": add, "remove": remove, "as": f"s{number - 1}", **more})]


def _of_delta(model: DeltaModel, word: Sequence[str], letter: str) -> list[Operation] | None:
    files, now = model.current.files, model.version
    live = [
        (f.file.label, i, visible_row(model.columns, f.file.columns, row)) for f, i, row in model.live(model.current)
    ]
    number = now + 1
    match letter:
        case "append" | "append-null":
            return [_commit(letter, {"add": _appended(model, letter, number), "remove": []})]
        case "delete-first" | "delete-last" | "delete-each" if live:
            return [_commit(letter, {"add": [], "remove": [], **_rows(model, _choose_rows(live, letter))})]
        case "upsert":
            (new,) = _files(model, _new(model, [(1, "a"), (1, "a")]), number)
            hits = _rows(model, _of_key(model, live))
            return [_commit(letter, {"add": [{**new, "dead": [0]}], "remove": [], **hits})]
        case "compact" if files:
            new_files = _files(model, [row for *_, row in live], number)
            return [_commit(letter, {"add": new_files, "remove": list(files), "data-change": False})]
        case "drop-file" if files:
            return [_commit(letter, {"add": [], "remove": [next(iter(files))]})]
        case "restore" if Selector("version", now - 1) in model.points():
            return _restored(model)
        case _ if letter in CHECKPOINTS:
            had_v2 = any(earlier in V2 for earlier in word)
            if letter == "checkpoint-parts" and had_v2:
                return None
            policy = [{"configuration": {"delta.checkpointPolicy": "v2"}}] if letter in V2 and not had_v2 else []
            return [*policy, {"checkpoint": CHECKPOINTS[letter]}]
        case "checksum":
            return [{letter: now}]
        case "compact-log" if now > model.first:
            return [{"compact": [now - 1, now]}]
        case "expire-log" if max(model.checkpoints, default=0) > model.first:
            return [{letter: max(model.checkpoints)}]
        case "vacuum" if model.labels - files.keys() - model.vacuumed:
            return [{letter: None}]
    return None


def _restored(model: DeltaModel) -> list[Operation] | None:
    """Return the operations that restore the files of the previous version."""
    now, wanted = model.current.files, model.versions[-2].files
    last = {label: file for version in model.versions for label, file in version.files.items()}
    if any(file.dead and file.dead != last[label].dead for label, file in wanted.items()):
        return None  # the builder can restore only the last vector of a file
    add = [
        label if file.dead == last[label].dead else {"file": label, "unset": ["deletionVector"]}
        for label, file in wanted.items()
        if file != now.get(label)
    ]
    return [_commit("restore", {"add": add, "remove": [label for label in now if now[label] != wanted.get(label)]})]


_OPERATION = {
    **dict.fromkeys(("append", "append-null"), "append"),
    **dict.fromkeys(
        ("delete-first", "delete-last", "delete-each", "delete-equal", "delete-null", "drop-file"), "delete"
    ),
    **dict.fromkeys(("upsert", "restore"), "overwrite"),
    **dict.fromkeys(("compact", "compact-old"), "replace"),
}


def _commit(letter: str, value: Operation) -> Operation:
    return {"commit": {**value, "operation": _OPERATION[letter]}}


def _is_partitioned(model: TableModel) -> bool:
    return bool(model.specs[model.spec]) if isinstance(model, IcebergModel) else True


def _choose_rows(live: Sequence[Live], letter: str) -> Sequence[Live]:
    match letter:
        case "delete-first":
            return live[:1]
        case "delete-last":
            return live[-1:]
        case _:
            return list({label: (label, i, row) for label, i, row in live[::-1]}.values())


def _of_key(model: TableModel, live: Sequence[Live]) -> list[Live]:
    return [hit for hit in live if hit[2][model.columns[KEY].id] == 1]


def _appended(model: TableModel, letter: str, number: int) -> list[Operation]:
    keys = [(1, "a"), (2, "a"), (1, "b")] if letter == "append" else [(None, None), (2, "a")]
    return _files(model, _new(model, keys), number)


def _new(model: TableModel, keys: Sequence[tuple[int | None, str | None]]) -> list[Row]:
    """Return rows with some keys and partitions. All other columns contain the number of the row."""
    if isinstance(model, IcebergModel):
        held = (entry.file for snapshot in model.snapshots.values() for entry in snapshot.files.values())
    else:
        assert isinstance(model, DeltaModel)
        held = (live.file for version in model.versions for live in version.files.values())
    count = sum(len(rows) for rows in {file.label: file.rows for file in held if isinstance(file, ModelFile)}.values())
    names = [column.id for column in model.columns]
    return [dict(zip(names, (*key, *[count + i] * (len(names) - 2)), strict=True)) for i, key in enumerate(keys)]


def _files(model: TableModel, rows: Sequence[Row], number: int) -> list[Operation]:
    """Return operations that write the rows, one file per partition."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[model.columns[PART].id] if _is_partitioned(model) else None, []).append(row)
    return [
        {"data": f"f{number}{'abc'[i]}", "rows": scenario_rows(model.columns, group)}
        for i, group in enumerate(groups.values())
    ]


def _rows(model: DeltaModel, hits: Iterable[Live]) -> Operation:
    """Return the rows of remaining files for a Delta commit: all rows that are deleted in these files from now on."""
    files, found = model.current.files, _positions(hits, lambda label: label)
    dead = {label: {i for _, i in pairs} | (files[label].dead or set()) for label, pairs in found.items()}
    return {"delete-rows": {label: sorted(positions) for label, positions in dead.items()}} if dead else {}


def _hidden(model: IcebergModel, hits: Iterable[Live], number: int) -> tuple[list[Operation], list[str]]:
    """Return the files that a commit adds and removes to delete rows by position."""
    files = model.current.files
    if model.version == 2:
        scopes = _positions(hits, lambda label: files[label].scope if label in files else None)
        return [
            {"position-deletes": [list(pair) for pair in sorted(pairs)], "label": f"d{number}{i}"}
            for i, pairs in enumerate(scopes.values())
        ], []
    marked = _positions(hits, lambda label: label)
    vectors = {label: {i for _, i in pairs} for label, pairs in marked.items()}
    before = [entry.file for entry in files.values() if isinstance(entry.file, Vector)]
    replaced = [vector for vector in before if vector.target in vectors]
    for vector in replaced:
        vectors[vector.target] |= vector.positions
    added = {"deletion-vectors": {label: sorted(places) for label, places in vectors.items()}, "label": f"v{number}"}
    return [added], [vector.label for vector in replaced]


def _positions(hits: Iterable[Live], group: Callable[[str], Any]) -> dict[Any, list[tuple[str, int]]]:
    found: dict[Any, list[tuple[str, int]]] = {}
    for label, position, _ in hits:
        found.setdefault(group(label), []).append((label, position))
    return found


def _equality(model: IcebergModel, key: int | None, part: str | None, number: int) -> Operation:
    partition = {"partition": {"p": part}} if _is_partitioned(model) else {}
    return {"equality-deletes": [model.columns[KEY].name], "rows": [[key]], "label": f"e{number}", **partition}
