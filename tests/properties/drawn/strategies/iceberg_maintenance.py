"""Further operations of Iceberg histories for reads of changes: files that are exchanged, and rows that keep ids.

They maintain deletes, bring removed files back, and update rows whose row ids stay.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

from drawn.models.iceberg import (
    IcebergModel,
    ModelEntry,
    ModelEqualityDeletes,
    ModelPositionDeletes,
    Vector,
)
from drawn.models.model import ModelFile, scenario_rows, visible_row
from drawn.strategies.columns import Draw, HistoryOperation, Operation, fresh
from drawn.strategies.iceberg_operations import _data, _data_files, _equality_deletes, _habits, _has_data, _has_keys
from drawn.strategies.values import changed_rows

_FIRST_STORED_ID = 1_000_000
"""The first row id that files store. Inherited ids stay below."""


def append_with_ids(draw: Draw, model: IcebergModel) -> Operation:
    """Draw data files that store new row ids."""
    files = _data_files(draw, model)
    ids = _new_ids(model)
    for file in files:
        file["row-ids"] = [next(ids) for _ in file["rows"]]
    return {"append": {"files": files, "as": fresh(model.labels, "s")}}


def add_again(draw: Draw, model: IcebergModel) -> Operation:
    """Draw a file that an earlier commit removed, as a new file or with its earlier sequence number."""
    entry = draw(st.sampled_from(_removed(model)))
    taken = set(model.labels)
    commit = {"add": [entry.file.label], "as": fresh(taken, "s"), **_habits(draw)}
    if not isinstance(entry.file, ModelFile):
        return {"commit": {**commit, "operation": "delete"}}
    # A vector that is still live may not be older than its data file.
    if model.version > 1 and (entry.file.label in _vectors(model) or draw(st.booleans())):
        commit["sequence-number"] = entry.sequence
    return {"commit": {**commit, "operation": draw(st.sampled_from(["append", "overwrite"]))}}


def _removed(model: IcebergModel) -> list[ModelEntry]:
    """Return the files of earlier snapshots that may be added again."""
    now, vectors = model.current.files, _vectors(model)
    every = {label: e for s in (model.expired | model.snapshots).values() for label, e in s.files.items()}
    gone = [e for label, e in every.items() if label not in now]
    return [
        e
        for e in gone
        if (
            e.file.target in now and e.file.target not in vectors and now[e.file.target].sequence <= e.sequence
            if isinstance(e.file, Vector)
            else isinstance(e.file, ModelFile | ModelEqualityDeletes) or model.version == 2
        )
    ]


def exchange_position_deletes(draw: Draw, model: IcebergModel) -> Operation:
    """Draw a position delete file in place of others of its partition, perhaps with more deleted rows."""
    scopes: dict[Any, list[ModelEntry]] = {}
    for entry in model.current.files.values():
        if isinstance(entry.file, ModelPositionDeletes):
            scopes.setdefault(entry.scope, []).append(entry)
    old = draw(st.lists(st.sampled_from(draw(st.sampled_from(list(scopes.values())))), min_size=1, unique_by=id))
    data = {e.file.label: e for e in _data(model) if e.scope == old[0].scope}
    pairs = {
        pair
        for entry in old
        for pair in entry.file.pairs  # type: ignore[union-attr]
        if pair[0] in data and data[pair[0]].sequence <= entry.sequence
    }
    operation = draw(st.sampled_from(["replace", "delete", "overwrite"]))
    if operation != "replace" and data:
        more = [(label, i) for label, e in data.items() for i in range(len(e.file.rows))]  # type: ignore[union-attr]
        pairs |= draw(st.sets(st.sampled_from(more), max_size=2))
    taken = set(model.labels)
    files = [{"position-deletes": [list(p) for p in sorted(pairs)], "label": fresh(taken, "d")}] if pairs else []
    gone = [e.file.label for e in old]
    return {"commit": {"add": files, "remove": gone, "operation": operation, "as": fresh(taken, "s"), **_habits(draw)}}


def convert_equality_deletes(draw: Draw, model: IcebergModel) -> Operation:
    """Draw position deletes or vectors in place of all equality deletes."""
    gone = [e.file.label for e in model.current.files.values() if isinstance(e.file, ModelEqualityDeletes)]
    hidden = _hidden_places(model)
    taken = set(model.labels)
    files, replaced = _deletes_of(model, hidden, taken)
    commit = {"add": files, "remove": [*gone, *replaced], "operation": "replace"}
    return {"commit": {**commit, "as": fresh(taken, "s"), **_habits(draw)}}


def drop_idle_deletes(draw: Draw, model: IcebergModel) -> Operation:
    """Draw the removal of the deletes that apply to no row."""
    operation = draw(st.sampled_from(["replace", "delete"]))
    return {
        "commit": {
            "remove": _idle(model),
            "operation": operation,
            "as": fresh(model.labels, "s"),
            **_habits(draw),
        }
    }


def _idle(model: IcebergModel) -> list[str]:
    """Return the labels of delete files without which the rows stay the same."""
    now, places = model.current, _live_places(model)
    idle: list[str] = []
    for label, entry in now.files.items():
        if not isinstance(entry.file, ModelFile):
            left = {k: v for k, v in now.files.items() if k != label and k not in idle}
            state = type(now)(now.sequence, now.columns, left)
            if {(f.label, i) for _, f, i, _ in model.live(state)} == places:
                idle.append(label)
    return idle


def update_in_place(draw: Draw, model: IcebergModel) -> Operation:
    """Draw deleted positions and changed rows with the same row ids, and perhaps removed files and equality deletes."""
    live = [(f.label, i, visible_row(model.columns, f.columns, row)) for _, f, i, row in model.live(model.current)]
    chosen = draw(st.lists(st.sampled_from(live), min_size=1, max_size=4, unique_by=lambda hit: hit[:2]))
    taken = set(model.labels)
    added = _written(draw, model, chosen, taken)
    gone: list[str] = []
    if draw(st.integers(0, 2)) == 2:
        gone = [draw(st.sampled_from([label for label, *_ in chosen]))]
        gone += [v.label for target, v in _vectors(model).items() if target in gone]
    hits = {(label, i) for label, i, _ in chosen if label not in gone}
    files, replaced = _deletes_of(model, hits, taken)
    if _has_keys(model) and draw(st.integers(0, 3)) == 3:
        files.append(_equality_deletes(draw, model, taken))
    commit = {"add": [*added, *files], "remove": [*gone, *replaced], "operation": "overwrite"}
    return {"commit": {**commit, "as": fresh(taken, "s"), **_habits(draw)}}


def rewrite_with_ids(draw: Draw, model: IcebergModel) -> Operation:
    """Draw new files with the live rows of some data files and their row ids. An update changes some rows."""
    entries = draw(st.lists(st.sampled_from(_data(model)), min_size=1, max_size=3, unique_by=id))
    labels = [e.file.label for e in entries]
    live = [
        (f.label, i, visible_row(model.columns, f.columns, row))
        for _, f, i, row in model.live(model.current)
        if f.label in labels
    ]
    taken = set(model.labels)
    operation = draw(st.sampled_from(["replace", "overwrite"]))
    files = _written(draw if operation == "overwrite" else None, model, live, taken)
    gone = [*labels, *(v.label for target, v in _vectors(model).items() if target in labels)]
    return {"commit": {"add": files, "remove": gone, "operation": operation, "as": fresh(taken, "s"), **_habits(draw)}}


def _written(
    draw: Draw | None, model: IcebergModel, hits: Sequence[tuple[str, int, Any]], taken: set[str]
) -> list[dict[str, Any]]:
    """Return data files with rows of other files and their stored row ids. Some rows change if `draw` is given."""
    files = {e.file.label: e.file for e in _data(model)}
    groups: dict[str, tuple[list[Any], list[int | None]]] = {}
    for label, position, row in hits:
        stored = files[label].row_ids  # type: ignore[union-attr]
        content = scenario_rows(model.columns, [row])
        for changed in content if draw is None else changed_rows(draw, model.columns, content):
            values = _partition_text(model, changed)
            rows, ids = groups.setdefault(values, ([], []))
            rows.append(changed)
            ids.append(stored[position] if stored else None)
    with_ids = model.version > 2
    return [
        {"data": fresh(taken, "f"), "rows": rows, **({"row-ids": ids} if with_ids else {})}
        for rows, ids in groups.values()
    ]


def _partition_text(model: IcebergModel, row: Sequence[Any]) -> str:
    from drawn.models.model import stored_rows

    (stored,) = stored_rows(model.columns, [row])
    return repr(model.partition_of(model.spec, model.columns, stored))


def _deletes_of(
    model: IcebergModel, places: set[tuple[str, int]], taken: set[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the files that delete rows at some places, and the labels of the vectors that they replace."""
    if not places:
        return [], []
    data = {e.file.label: e for e in _data(model)}
    if model.version == 2:
        scopes: dict[Any, list[list[Any]]] = {}
        for label, position in sorted(places):
            scopes.setdefault(data[label].scope, []).append([label, position])
        return [{"position-deletes": pairs, "label": fresh(taken, "d")} for pairs in scopes.values()], []
    old = _vectors(model)
    vectors: dict[str, set[int]] = {}
    for label, position in places:
        before = old[label].positions if label in old else _deleted_positions(model, data[label])
        vectors.setdefault(label, set(before)).add(position)
    positions = {label: sorted(found) for label, found in sorted(vectors.items())}
    return [{"deletion-vectors": positions, "label": fresh(taken, "d")}], [
        old[label].label for label in positions if label in old
    ]


def _deleted_positions(model: IcebergModel, data: ModelEntry) -> set[int]:
    """Return the rows of a file that position delete files delete, which a vector for the file must contain."""
    return {
        position
        for entry in model.current.files.values()
        if isinstance(entry.file, ModelPositionDeletes)
        and entry.scope == data.scope
        and entry.sequence >= data.sequence
        for label, position in entry.file.pairs
        if label == data.file.label
    }


def _live_places(model: IcebergModel) -> set[tuple[str, int]]:
    return {(file.label, position) for _, file, position, _ in model.live(model.current)}


def _hidden_places(model: IcebergModel) -> set[tuple[str, int]]:
    whole = {(e.file.label, i) for e in _data(model) for i in range(len(e.file.rows))}  # type: ignore[union-attr]
    return whole - _live_places(model)


def _vectors(model: IcebergModel) -> dict[str, Vector]:
    return {e.file.target: e.file for e in model.current.files.values() if isinstance(e.file, Vector)}


def _new_ids(model: IcebergModel) -> Iterator[int]:
    stored = [
        number
        for snapshot in (model.expired | model.snapshots).values()
        for e in snapshot.files.values()
        if isinstance(e.file, ModelFile)
        for number in e.file.row_ids
        if number is not None
    ]
    number = max(stored, default=_FIRST_STORED_ID)
    while True:
        number += 1
        yield number


def _holds(model: IcebergModel, kind: Any) -> bool:
    return any(isinstance(e.file, kind) for e in model.current.files.values())


def _has_live(model: IcebergModel) -> bool:
    return model.version > 1 and bool(_live_places(model))


MAINTENANCE: Final[Mapping[str, HistoryOperation]] = {
    "append-with-ids": HistoryOperation(lambda model: model.version > 2, append_with_ids),
    "add-again": HistoryOperation(lambda model: bool(_removed(model)), add_again),
    "exchange-position-deletes": HistoryOperation(
        lambda model: model.version == 2 and _holds(model, ModelPositionDeletes), exchange_position_deletes
    ),
    "convert-equality-deletes": HistoryOperation(
        lambda model: _holds(model, ModelEqualityDeletes), convert_equality_deletes
    ),
    "drop-idle-deletes": HistoryOperation(lambda model: bool(_idle(model)), drop_idle_deletes),
    "update-in-place": HistoryOperation(_has_live, update_in_place),
    "rewrite-with-ids": HistoryOperation(lambda model: model.version > 2 and _has_data(model), rewrite_with_ids),
}
"""The operations by name."""
