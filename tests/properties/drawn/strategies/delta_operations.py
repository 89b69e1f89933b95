"""Operations of Delta histories, drawn so that they are valid for a table in the state of its model.

Each function draws one operation in the form of a scenario. `OPERATIONS` contains them by name, with a function that
returns whether the table allows the operation.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from drawn.models.delta import EMPTY, DeltaModel, ModelLiveFile
from drawn.models.model import Columns, identities, scenario_rows, stored_rows, visible_row
from drawn.strategies.columns import Draw, HistoryOperation, Operation, column_operations, fresh, paths
from drawn.strategies.values import changed_rows, rows
from harness.metadata.model import schema as dt

File: TypeAlias = dict[str, Any]
_KINDS: Final[tuple[Any, ...]] = (
    "classic",
    {"kind": "classic", "hint": False},
    {"kind": "multi-part", "parts": 2},
    {"kind": "classic", "stats-parsed": True, "partition-values-parsed": True, "stats-json": False},
    {"kind": "v2-json", "sidecars": 1},
    {"kind": "v2-parquet", "sidecars": 0},
    {"kind": "v2-json", "sidecars": 2, "hint": False},
)
_DAYS: Final = range(-719_162, 2_932_897)
_MICROS: Final = range(-719_162 * 86_400_000_000, 2_932_897 * 86_400_000_000)
_PARTITIONED: Final = (dt.IntegerType, dt.StringType, dt.DateType, dt.BooleanType, dt.DecimalType, dt.TimestampType)


def append(draw: Draw, model: DeltaModel) -> Operation:
    """Draw data files. In a partitioned table, there is one per partition of the rows."""
    return {"append": _data_files(draw, model)}


def merge(draw: Draw, model: DeltaModel) -> Operation:
    """Draw a commit with deletion vectors and new rows."""
    return {
        "commit": {"delete-rows": {"rows": _marked(draw, model), **_storage(draw)}, "add": _data_files(draw, model)}
    }


def remove(draw: Draw, model: DeltaModel) -> Operation:
    """Draw a removal of files."""
    return {"remove": draw(st.lists(st.sampled_from(sorted(model.current.files)), min_size=1, max_size=2, unique=True))}


def rewrite(draw: Draw, model: DeltaModel) -> Operation:
    """Draw new files with the live rows of some files."""
    content, gone = _rewritten(draw, model)
    return {"commit": {"add": _grouped(model, content), "remove": gone, "operation": "OPTIMIZE", "data-change": False}}


def copy_on_write(draw: Draw, model: DeltaModel) -> Operation:
    """Draw new files with the live rows of some files, of which some rows are changed or left out."""
    content, gone = _rewritten(draw, model)
    changed = [_with_texts(model, row) for row in changed_rows(draw, model.columns, content)]
    return {"commit": {"add": _grouped(model, changed), "remove": gone, "operation": "UPDATE"}}


def _rewritten(draw: Draw, model: DeltaModel) -> tuple[list[list[Any]], list[str]]:
    """Draw data files. Return their live rows and their labels."""
    entries = draw(st.lists(st.sampled_from(list(model.current.files.values())), min_size=1, max_size=3, unique_by=id))
    chosen = [id(e) for e in entries]
    live = [visible_row(model.columns, e.file.columns, r) for e, _, r in model.live(model.current) if id(e) in chosen]
    return scenario_rows(model.columns, live), [e.file.label for e in entries]


def checkpoint(draw: Draw, model: DeltaModel) -> Operation:
    """Draw a checkpoint of the newest version."""
    illegal = "multi-part" if "v2Checkpoint" in model.features else "v2"  # delta L13
    return {"checkpoint": draw(st.sampled_from([k for k in _KINDS if illegal not in str(k)]))}


def compact_log(draw: Draw, model: DeltaModel) -> Operation:
    """Draw a log compaction file for several versions."""
    first = draw(st.integers(max(model.first, 1), model.version - 1))
    return {"compact": [first, draw(st.integers(first + 1, model.version))]}


@st.composite
def partition_columns(draw: Draw, columns: Columns) -> list[str]:
    """Draw partition columns. They have primitive types, and at least one other column remains."""
    names = [f.name for f in columns if isinstance(f.type, _PARTITIONED)]
    if not names:
        return []
    return draw(st.lists(st.sampled_from(names), max_size=min(2, len(columns) - 1), unique=True))  # type: ignore[no-any-return]


def _data_files(draw: Draw, model: DeltaModel) -> list[File]:
    options: dict[str, Any] = {}
    if size := draw(st.sampled_from([None, 1, 2, 1])):
        options["row-group-size"] = size
    if draw(st.integers(0, 7)) == 7:
        options["statistics"] = "none"
    return _grouped(model, [_with_texts(model, row) for row in draw(rows(model.columns, max_size=9))], options)


def _grouped(model: DeltaModel, content: Sequence[Any], options: Mapping[str, Any] | None = None) -> list[File]:
    """Return data files with the rows, one for each partition."""
    taken = set(model.labels)
    groups: dict[str, list[Any]] = {}
    for row, stored in zip(content, stored_rows(model.columns, content), strict=True):
        values = [None if v in EMPTY else v for v in model.partition_of(stored)]
        groups.setdefault(repr(values), []).append(row)
    return [
        {"data": fresh(taken, "f"), "rows": _same_nulls(model, group), **(options or {})} for group in groups.values()
    ]


def _with_texts(model: DeltaModel, row: list[Any]) -> list[Any]:
    """Return the row with null for partition values in years that writers cannot store as text: all but 1 to 9999."""
    limits = {dt.DateType: _DAYS, dt.TimestampType: _MICROS}
    return [
        None if isinstance(v, int) and f.id in model.partitions and v not in limits.get(type(f.type), (v,)) else v
        for f, v in zip(model.columns, row, strict=True)
    ]


def _same_nulls(model: DeltaModel, group: list[Any]) -> list[Any]:
    """Return the rows with null in place of empty texts in partition columns."""
    at = [i for i, f in enumerate(model.columns) if f.id in model.partitions]
    return [[None if i in at and v == "" else v for i, v in enumerate(row)] for row in group]


def _marked(draw: Draw, model: DeltaModel) -> dict[str, list[int]]:
    """Draw rows to delete by file, with at least one live row: an unchanged vector would add what it removes (delta
    L25).
    """
    chosen = st.sampled_from([e for e in model.current.files.values() if _alive(e)])
    entries: list[ModelLiveFile] = draw(st.lists(chosen, min_size=1, max_size=2, unique_by=id))
    return {
        e.file.label: sorted(
            {draw(st.sampled_from(_alive(e))), *draw(st.sets(st.integers(0, len(e.file.rows) - 1), max_size=3))}
        )
        for e in entries
    }


def _alive(entry: ModelLiveFile) -> list[int]:
    return [i for i in range(len(entry.file.rows)) if i not in (entry.dead or ())]


def _storage(draw: Draw) -> dict[str, Any]:
    return {"storage": "i"} if draw(st.integers(0, 2)) == 2 else {}


def _droppable(model: DeltaModel) -> list[str]:
    """Return the columns that may be dropped: not the last one of a level, not partition columns, not the last one in
    files.
    """
    every = paths(model.columns, named_only=True)
    levels = [p.rpartition(".")[0] for p, _ in every]
    stored = [f for f in model.columns if f.id not in model.partitions and not isinstance(f.type, dt.UnknownType)]
    kept = {*model.partitions, *([stored[0].id] if len(stored) == 1 else [])}
    return [p for p, f in every if levels.count(p.rpartition(".")[0]) > 1 and not kept & identities((f,)).keys()]


def _has_files(model: DeltaModel) -> bool:
    return bool(model.current.files)


def _has_rows(model: DeltaModel) -> bool:
    return any(map(_alive, model.current.files.values()))


OPERATIONS: Final[Mapping[str, HistoryOperation]] = {
    "append": HistoryOperation(lambda model: True, append),
    "delete-rows": HistoryOperation(
        _has_rows, lambda draw, model: {"delete-rows": {"rows": _marked(draw, model), **_storage(draw)}}
    ),
    "merge": HistoryOperation(_has_rows, merge),
    "remove": HistoryOperation(_has_files, remove),
    "overwrite": HistoryOperation(_has_files, lambda draw, model: {"overwrite": _data_files(draw, model)}),
    "rewrite": HistoryOperation(_has_files, rewrite),
    "copy-on-write": HistoryOperation(_has_files, copy_on_write),
    "checkpoint": HistoryOperation(lambda model: model.version > 0, checkpoint),
    "compact-log": HistoryOperation(lambda model: model.version > max(model.first, 1), compact_log),
    "expire-log": HistoryOperation(
        lambda model: bool(model.checkpoints),
        lambda draw, model: {"expire-log": draw(st.sampled_from(sorted(model.checkpoints)))},
    ),
    "vacuum": HistoryOperation(lambda model: model.version > 1, lambda draw, model: {"vacuum": None}),
    "checksum": HistoryOperation(lambda model: True, lambda draw, model: {"checksum": model.version}),
    "map-columns": HistoryOperation(lambda model: not model.mapped, lambda draw, model: {"column-mapping": "name"}),
    **column_operations(_droppable, lambda model: model.mapped),
}
"""The kinds of operations by name, those with the fewest preconditions first."""
