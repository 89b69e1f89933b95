"""Histories of statements, drawn by Hypothesis from the operations in the histories in files.

Every statement succeeds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st
from iceberg_equality import equality_delete
from iceberg_histories import ON_READ, create
from written_tables import Step

_LITERALS: Mapping[str, tuple[str, ...]] = {
    "int": ("NULL", "0", "-2147483648", "7"),
    "bigint": ("NULL", "0", "9000000000", "-7"),
    "float": ("NULL", "CAST('NaN' AS float)", "0.1F"),
    "double": ("NULL", "-0.0D", "0.1D"),
    "decimal(5, 2)": ("NULL", "999.99", "-0.01"),
    "decimal(12, 2)": ("NULL", "1234567890.12"),
    "string": ("NULL", "''", "'a'", "'ü/ %'"),
    "date": ("NULL", "DATE'1969-12-31'", "DATE'2024-02-29'"),
    "timestamp_ntz": ("NULL", "TIMESTAMP_NTZ'1969-12-31 23:01:00.5'"),
    "struct<x: int>": ("NULL", "named_struct('x', 1)", "named_struct('x', NULL)"),
    "array<int>": ("NULL", "array()", "array(1, NULL)"),
}
_WIDER = {"int": "bigint", "float": "double", "decimal(5, 2)": "decimal(12, 2)"}
_WIDER_IN_DELTA = {**_WIDER, "date": "timestamp_ntz"}
_NUMBER = ("{c}", "bucket(3, {c})", "truncate(10, {c})")
_TRANSFORMS = {
    "int": _NUMBER,
    "bigint": _NUMBER,
    "string": ("{c}", "bucket(3, {c})", "truncate(1, {c})"),
    "date": ("{c}", "years({c})", "months({c})", "days({c})"),
}
_NO_KEYS = ("float", "double", "struct", "array")
"""Types that equality deletes cannot use as keys."""
_KEPT = ("id", "s")
"""Columns whose names and types never change."""
_PROPERTIES = (
    "'delta.enableDeletionVectors'='true'",
    "'delta.enableDeletionVectors'='true', 'delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='2'",
    "'delta.enableDeletionVectors'='false', 'delta.checkpointInterval'='3'",
    "'delta.enableRowTracking'='true', 'delta.enableDeletionVectors'='true'",
)
_WIDENING = "'delta.enableTypeWidening'='true', 'delta.feature.timestampNtz'='supported'"
_REWRITE = "CALL ice.system.{} (table => '{{ref}}', options => map('rewrite-all', 'true'))"


@dataclass(slots=True)
class _State:
    """The table after the statements so far.

    Attributes:
        version: The Iceberg format version, or 0 for Delta.
        fields: The source columns of partition fields.
        made: All names that were ever used.
    """

    draw: Callable[..., object]
    version: int
    columns: dict[str, str] = field(default_factory=lambda: {"id": "bigint", "s": "string", "n": "int"})
    fields: dict[str, str] = field(default_factory=dict)
    made: int = 0

    def pick(self, *choices: str) -> str:
        return str(self.draw(st.sampled_from(choices)))

    def number(self, least: int, most: int) -> int:
        return int(str(self.draw(st.integers(least, most))))

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def condition(self) -> str:
        n = self.number(0, 9)
        return self.pick(f"id = {n}", f"id > {n}", f"id % 3 = {n} % 3", "id IS NULL", "s = 'a'", "s IS NULL", "true")

    def others(self) -> list[str]:
        """The columns that may change: all but the source columns of partition specs."""
        return [name for name in self.columns if name not in _KEPT and name not in self.fields.values()]


def _insert(state: _State) -> str:
    rows = []
    for _ in range(state.number(1, 4)):
        key = state.pick("NULL", *map(str, range(10)))
        values = [key if name == "id" else state.pick(*_LITERALS[type_]) for name, type_ in state.columns.items()]
        rows.append(f"({', '.join(values)})")
    return f"INSERT INTO {{t}} ({', '.join(state.columns)}) VALUES {', '.join(rows)}"


def _delete(state: _State) -> str:
    return f"DELETE FROM {{t}} WHERE {state.condition()}"


def _update(state: _State) -> str:
    name = state.pick(*state.columns)
    return f"UPDATE {{t}} SET {name} = {state.pick(*_LITERALS[state.columns[name]])} WHERE {state.condition()}"


def _merge(state: _State) -> str:
    n = state.number(0, 9)
    return (
        f"MERGE INTO {{t}} USING (SELECT {n}L AS k UNION ALL SELECT {n} + 1 UNION ALL SELECT {n} + 2) u ON {{t}}.id = "
        f"u.k WHEN MATCHED AND u.k = {n} THEN DELETE WHEN MATCHED THEN UPDATE SET s = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (u.k)"
    )


def _add(state: _State) -> str:
    name, type_ = state.name("c"), state.pick(*_LITERALS)
    first = state.pick("", " FIRST")
    state.columns = {name: type_, **state.columns} if first else {**state.columns, name: type_}
    return f"ALTER TABLE {{t}} ADD COLUMNS ({name} {type_}{first})"


def _drop(state: _State) -> str | None:
    if not state.others() or state.fields:  # the source column of an old spec must not be dropped
        return None
    name = state.pick(*state.others())
    del state.columns[name]
    return f"ALTER TABLE {{t}} DROP COLUMN {name}"


def _rename(state: _State) -> str | None:
    if not state.others():
        return None
    old, new = state.pick(*state.others()), state.name("r")
    state.columns = {new if name == old else name: type_ for name, type_ in state.columns.items()}
    return f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}"


def _widen(state: _State) -> str | None:
    wider = _WIDER if state.version else _WIDER_IN_DELTA
    names = [name for name in state.others() if state.columns[name] in wider]
    if not names:
        return None
    name = state.pick(*names)
    state.columns[name] = wider[state.columns[name]]
    return f"ALTER TABLE {{t}} ALTER COLUMN {name} TYPE {state.columns[name]}"


def _partition(state: _State) -> str:
    if state.fields:
        old, _ = state.fields.popitem()
        return f"ALTER TABLE {{t}} DROP PARTITION FIELD {old}"
    name = state.pick(*(name for name, type_ in state.columns.items() if type_ in _TRANSFORMS))
    transform, part = state.pick(*_TRANSFORMS[state.columns[name]]).format(c=name), state.name("p")
    state.fields[part] = name
    return f"ALTER TABLE {{t}} ADD PARTITION FIELD {transform} AS {part}"


def _upgrade(state: _State) -> str | None:
    if state.version == 3:
        return None
    state.version = 3
    return "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')"


def _delete_by_keys(state: _State) -> Step:
    others = [name for name in state.others() if not state.columns[name].startswith(_NO_KEYS)]
    keys = ("id",) if not others or state.draw(st.booleans()) else (state.pick(*others), "id")
    number, format = state.number(-1, 9), state.pick("PARQUET", "AVRO", "ORC")
    return equality_delete(*keys, where="id", equals=None if number == -1 else number, format=format, vacuous=True)


def _format(state: _State) -> str:
    return f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.format.default'='{state.pick('parquet', 'avro', 'orc')}')"


_BOTH = (_insert, _insert, _delete, _delete, _update, _merge, _add, _drop, _rename, _widen)
_OF_ICEBERG: tuple[Callable[[_State], Step | None], ...] = (
    _delete_by_keys,
    _delete_by_keys,
    _partition,
    _upgrade,
    _format,
    lambda state: f"ALTER TABLE {{t}} CREATE TAG {state.name('t')}",
    lambda state: _REWRITE.format("rewrite_data_files"),
    lambda state: _REWRITE.format("rewrite_position_delete_files"),
)
_OF_DELTA: tuple[Callable[[_State], Step | None], ...] = (
    lambda state: "OPTIMIZE {t}",
    lambda state: None if state.made else "RESTORE TABLE {t} TO VERSION AS OF 1",
)


@st.composite
def histories(draw: Callable[..., object], format: str) -> list[Step]:
    """Draw the statements of a history: a table with a first insert, and up to eight operations on it."""
    state = _State(draw, 0)
    columns, more = "id bigint, s string, n int", _OF_DELTA
    if format == "iceberg":
        state.version, more = state.number(2, 3), _OF_ICEBERG
        begin = create(columns, state.version, *((ON_READ,) if draw(st.booleans()) else ()))
    else:
        mapping = f"'delta.columnMapping.mode'='{state.pick('name', 'id')}', {_WIDENING}"
        by = state.pick("", "PARTITIONED BY (s)")
        begin = f"CREATE TABLE {{t}} ({columns}) USING delta {by} TBLPROPERTIES ({mapping}, {state.pick(*_PROPERTIES)})"
    chosen = draw(st.lists(st.sampled_from((*_BOTH, *more)), min_size=3, max_size=8))
    drawn = (operation(state) for operation in (_insert, *chosen))  # type: ignore[misc]
    return [begin, *(statement for statement in drawn if statement is not None)]
