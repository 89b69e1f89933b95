"""Operations of Iceberg histories, drawn so that they are valid for a table in the state of its model.

Each function draws one operation in the form of a scenario. `OPERATIONS` contains them by name, with a function that
returns whether the table allows the operation.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from drawn.models.iceberg import IcebergModel, ModelEntry, Vector
from drawn.models.model import Columns, ModelFile, identities, scenario_rows, stored_rows, visible_row
from drawn.strategies.columns import Draw, HistoryOperation, Operation, column_operations, fresh, paths
from drawn.strategies.values import changed_rows, field_values, rows
from harness.metadata.model import schema as dt
from harness.suite.scenarios.values import format_value

File: TypeAlias = dict[str, Any]
Scope: TypeAlias = tuple[Any, ...]
"""A spec and a partition, as in `ModelEntry.scope`."""


def append(draw: Draw, model: IcebergModel) -> Operation:
    """Draw data files. In a partitioned table, there is one per partition of the rows."""
    files = _data_files(draw, model)
    return {"append": {"files": files, "as": fresh(model.labels, "s")}}


def overwrite(draw: Draw, model: IcebergModel) -> Operation:
    """Draw data files that replace all live files."""
    return {"overwrite": {"files": _data_files(draw, model), "as": fresh(model.labels, "s")}}


def delete_positions(draw: Draw, model: IcebergModel) -> Operation:
    """Draw position delete files, each for data files of one partition."""
    taken = set(model.labels)
    files = [_position_deletes(draw, model, taken) for _ in range(draw(st.integers(1, 2)))]
    return {"commit": {"add": files, "as": fresh(taken, "s"), **_habits(draw)}}


def delete_equal(draw: Draw, model: IcebergModel) -> Operation:
    """Draw an equality delete, in one partition or in all."""
    taken = set(model.labels)
    return {"commit": {"add": [_equality_deletes(draw, model, taken)], "as": fresh(taken, "s"), **_habits(draw)}}


def upsert(draw: Draw, model: IcebergModel) -> Operation:
    """Draw a commit with new rows and an equality delete, which does not apply to them, and perhaps deleted positions
    of them.
    """
    taken = set(model.labels)
    files = _data_files(draw, model, taken)
    deletes = [_equality_deletes(draw, model, taken)]
    if model.version == 2 and draw(st.booleans()):
        position = draw(st.integers(0, len(files[0]["rows"]) - 1))
        deletes.append({"position-deletes": [[files[0]["data"], position]], "label": fresh(taken, "d")})
    return {"commit": {"add": [*files, *deletes], "as": fresh(taken, "s"), **_habits(draw)}}


def delete_by_vectors(draw: Draw, model: IcebergModel) -> Operation:
    """Draw a Puffin file with vectors that replace the vectors of their data files."""
    entries = draw(st.lists(st.sampled_from(_data(model)), min_size=1, max_size=2, unique_by=id))
    old = {e.file.target: e.file for e in model.current.files.values() if isinstance(e.file, Vector)}
    vectors = {}
    for entry in entries:
        before = old[entry.file.label].positions if entry.file.label in old else frozenset()
        vectors[entry.file.label] = sorted(before | set(_positions(draw, entry)))
    taken = set(model.labels)
    files = [{"deletion-vectors": vectors, "label": fresh(taken, "d")}]
    gone = [old[e.file.label].label for e in entries if e.file.label in old]
    return {"commit": {"add": files, "remove": gone, "as": fresh(taken, "s"), **_habits(draw)}}


def remove(draw: Draw, model: IcebergModel) -> Operation:
    """Draw a removal of data files or delete files."""
    labels = draw(st.lists(st.sampled_from(sorted(model.current.files)), min_size=1, max_size=2, unique=True))
    return {"commit": {"remove": labels, "operation": "delete", "as": fresh(model.labels, "s"), **_habits(draw)}}


def compact(draw: Draw, model: IcebergModel) -> Operation:
    """Draw new files with live rows of some data files, with the sequence number of the snapshot that was read."""
    content, gone = _rewritten(draw, model)
    taken = set(model.labels)
    options: dict[str, Any] = {"remove": gone, "as": fresh(taken, "s")}
    if model.version > 1:
        options["sequence-number"] = model.refs["main"].commit
    return {"compact": {"files": _grouped(model, content, taken), **options}}


def copy_on_write(draw: Draw, model: IcebergModel) -> Operation:
    """Draw new files with the live rows of some data files, of which some rows are changed or left out."""
    content, gone = _rewritten(draw, model)
    taken = set(model.labels)
    changed = changed_rows(draw, model.columns, content)
    commit = {"add": _grouped(model, changed, taken), "remove": gone, "operation": "overwrite"}
    return {"commit": {**commit, "as": fresh(taken, "s"), **_habits(draw)}}


def _rewritten(draw: Draw, model: IcebergModel) -> tuple[list[list[Any]], list[str]]:
    """Draw data files. Return their live rows, and the labels of the files and of their vectors."""
    entries = draw(st.lists(st.sampled_from(_data(model)), min_size=1, max_size=3, unique_by=id))
    chosen = [id(e) for e in entries]
    live = [
        visible_row(model.columns, file.columns, row)
        for entry, file, _, row in model.live(model.current)
        if id(entry) in chosen
    ]
    gone = [e.file.label for e in entries]
    gone += [v.label for e in model.current.files.values() if isinstance(v := e.file, Vector) and v.target in gone]
    return scenario_rows(model.columns, live), gone


def side_commit(draw: Draw, model: IcebergModel) -> Operation:
    """Draw a commit to another branch, or a staged commit. `main` does not move."""
    files = _data_files(draw, model)
    branches = [n for n, r in model.refs.items() if r.kind == "branch" and n != "main"]
    where = {"branch": draw(st.sampled_from(branches))} if branches else {"stage": True}
    return {"commit": {"add": files, "as": fresh(model.labels, "s"), **where}}


def mark(draw: Draw, model: IcebergModel) -> Operation:
    """Draw a tag or branch."""
    name = next(n for n in ("audit", "t1", "t2", "t3", "t4", "t5", *map(str, range(99))) if n not in model.refs)
    at = draw(st.sampled_from(list(model.snapshots)))
    return {draw(st.sampled_from(["branch", "tag"])): {"name": name, "at": at}}


@st.composite
def partition_specs(draw: Draw, columns: Columns) -> list[list[str]]:
    """Draw specs over top-level columns, as lists of [source, transform, name]."""
    choices = [(f, t) for f in columns for t in _transforms(f.type)]
    if not choices:
        return []
    chosen = draw(st.lists(st.sampled_from(choices), max_size=2, unique_by=lambda c: (c[0].id, c[1])))
    return [[f.name, t, f"p{f.id}_{t.replace('[', '').replace(']', '')}"] for f, t in chosen]


def _transforms(type_: dt.Type) -> tuple[str, ...]:
    match type_:
        case dt.IntegerType() | dt.StringType():
            return ("identity", "bucket[3]", "truncate[2]", "void")
        case dt.DecimalType():
            # The least decimal of every precision is a multiple of 9. Other widths would truncate it to a number with
            # one digit more than the type has, which writers cannot store.
            return ("identity", "bucket[3]", "truncate[9]")
        case dt.DateType():
            return ("identity", "month", "day", "year", "bucket[3]")
        case dt.TimestampType():
            return ("day", "hour", "month", "bucket[3]", "identity")
        case dt.BooleanType():
            return ("identity",)
        case dt.UuidType() | dt.FixedType() | dt.TimeType():
            return ("identity", "bucket[3]")
        case _:
            return ()


def _data_files(draw: Draw, model: IcebergModel, used_labels: set[str] | None = None) -> list[File]:
    labels = set(model.labels) if used_labels is None else used_labels
    content = draw(rows(model.columns, max_size=9))
    options: dict[str, Any] = {}
    if size := draw(st.sampled_from([None, 1, 2, 1])):
        options["row-group-size"] = size
    if draw(st.integers(0, 7)) == 7:
        options["format"] = "avro"
    return _grouped(model, content, labels, options)


def _grouped(
    model: IcebergModel, content: Sequence[Any], used_labels: set[str], options: Mapping[str, Any] | None = None
) -> list[File]:
    """Return data files with the rows, one for each partition of the default spec."""
    groups: dict[str, list[Any]] = {}
    for row, stored in zip(content, stored_rows(model.columns, content), strict=True):
        groups.setdefault(repr(model.partition_of(model.spec, model.columns, stored)), []).append(row)
    chosen = dict(options or {})
    if "row-group-size" in chosen and chosen.get("format", "parquet") != "parquet":
        del chosen["row-group-size"]
    return [{"data": fresh(used_labels, "f"), "rows": group, **chosen} for group in groups.values()]


def _position_deletes(draw: Draw, model: IcebergModel, used_labels: set[str]) -> File:
    scopes: dict[tuple[Any, ...], list[ModelEntry]] = {}
    for entry in _data(model):
        scopes.setdefault(entry.scope, []).append(entry)
    scope = draw(st.sampled_from(list(scopes.values())))
    entries = draw(st.lists(st.sampled_from(scope), min_size=1, max_size=2, unique_by=id))
    pairs = [[e.file.label, position] for e in entries for position in _positions(draw, e)]
    return {"position-deletes": pairs, "label": fresh(used_labels, "d")}


def _equality_deletes(draw: Draw, model: IcebergModel, used_labels: set[str]) -> File:
    keys = draw(
        st.lists(st.sampled_from(_key_columns(model.columns)), min_size=1, max_size=2, unique_by=lambda f: f.id)
    )
    scope, place = draw(st.sampled_from(_scopes(model)))
    present = _present(model, keys, scope)
    drawn = st.tuples(*[field_values(f) for f in keys]).map(list)
    dead = draw(st.lists(st.one_of(st.sampled_from(present), drawn) if present else drawn, min_size=1, max_size=3))
    return {"equality-deletes": [f.name for f in keys], "rows": dead, "label": fresh(used_labels, "d"), **place}


def _present(model: IcebergModel, keys: Sequence[dt.Field], scope: Scope | None) -> list[list[Any]]:
    """Return the keys of live rows in files of a scope (None: any)."""
    found = [
        [format_value(f.type, row.get(f.id)) for f in keys]
        for entry, file, _, whole in model.live(model.current)
        if scope is None or entry.scope == scope
        for row in [visible_row(model.columns, file.columns, whole)]
    ]
    return list({repr(row): row for row in found}.values())


def _scopes(model: IcebergModel) -> list[tuple[Scope | None, File]]:
    """Return where an equality delete may apply: everywhere if there is an unpartitioned spec, or in a partition in
    use.
    """
    whole = [n for n, spec in enumerate(model.specs) if not spec]
    scopes: dict[Scope | None, File] = {None: {"spec-id": whole[-1]}} if whole else {}
    for entry in _data(model):
        spec = model.specs[entry.spec]
        if spec:
            values_ = zip(spec, entry.partition, strict=True)
            named = {c.name: format_value(model.partition_type(c), v) for c, v in values_}
            scopes[entry.scope] = {"spec-id": entry.spec, "partition": named}
    return list(scopes.items()) or [(None, {"spec-id": 0})]


def _positions(draw: Draw, entry: ModelEntry) -> list[int]:
    assert isinstance(entry.file, ModelFile)
    return sorted(draw(st.sets(st.integers(0, len(entry.file.rows) - 1), min_size=1)))


def _habits(draw: Draw) -> dict[str, Any]:
    return {"manifests": "merge"} if draw(st.integers(0, 3)) == 3 else {}


def _data(model: IcebergModel) -> list[ModelEntry]:
    return [e for e in model.current.files.values() if isinstance(e.file, ModelFile)]


def _key_columns(columns: Columns) -> list[dt.Field]:
    """Return the columns that equality deletes may compare: no nested and no floating-point columns."""
    excluded = (dt.FloatType, dt.GeometryType, dt.UnknownType)
    return [f for f in columns if not dt.children(f.type) and not isinstance(f.type, excluded)]


def _expirable(model: IcebergModel) -> list[str]:
    held = {ref.commit for ref in model.refs.values()}
    return [label for label in model.snapshots if label not in held]


def _droppable(model: IcebergModel) -> list[str]:
    """Return the columns that may be dropped: not the last one of a level, and not sources of the current partition
    spec.
    """
    sources = {c.source for c in model.specs[model.spec]}
    every = paths(model.columns, named_only=True)
    levels = [p.rpartition(".")[0] for p, _ in every]
    needed = [p for p, f in every if sources & identities((f,)).keys()]
    return [p for p, _ in every if levels.count(p.rpartition(".")[0]) > 1 and p not in needed]


def _has_data(model: IcebergModel) -> bool:
    return bool(_data(model))


def _has_keys(model: IcebergModel) -> bool:
    return model.version > 1 and _has_data(model) and bool(_key_columns(model.columns))


OPERATIONS: Final[Mapping[str, HistoryOperation]] = {
    "append": HistoryOperation(lambda model: True, append),
    "delete-positions": HistoryOperation(lambda model: model.version == 2 and _has_data(model), delete_positions),
    "delete-equal": HistoryOperation(_has_keys, delete_equal),
    "upsert": HistoryOperation(_has_keys, upsert),
    "delete-by-vectors": HistoryOperation(lambda model: model.version > 2 and _has_data(model), delete_by_vectors),
    "remove": HistoryOperation(lambda model: bool(model.current.files), remove),
    "overwrite": HistoryOperation(lambda model: bool(model.current.files), overwrite),
    "compact": HistoryOperation(_has_data, compact),
    "copy-on-write": HistoryOperation(_has_data, copy_on_write),
    "side-commit": HistoryOperation(lambda model: bool(model.snapshots), side_commit),
    "mark": HistoryOperation(lambda model: bool(model.snapshots), mark),
    "roll-back": HistoryOperation(
        lambda model: len(model.snapshots) > 1,
        lambda draw, model: {"set-ref": {"name": "main", "at": draw(st.sampled_from(list(model.snapshots)))}},
    ),
    "expire": HistoryOperation(
        lambda model: bool(_expirable(model)), lambda draw, model: {"expire": draw(st.sampled_from(_expirable(model)))}
    ),
    "upgrade": HistoryOperation(lambda model: model.version < 3, lambda draw, model: {"upgrade": model.version + 1}),
    **column_operations(_droppable),
    "partition": HistoryOperation(
        lambda model: model.version > 1 and len(model.specs) < 4,
        lambda draw, model: {"partition-spec": draw(partition_specs(model.columns))},
    ),
}
"""The kinds of operations by name, those with the fewest preconditions first."""
