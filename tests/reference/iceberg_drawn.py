"""Histories drawn by Hypothesis from the operations of the written ones; every statement of them succeeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st
from iceberg_equality import equality_delete
from iceberg_history import ON_READ, Step, create

_LITERALS: dict[str, tuple[str, ...]] = {
    "int": ("NULL", "0", "-2147483648", "7"),
    "bigint": ("NULL", "0", "9000000000", "-7"),
    "float": ("NULL", "CAST('NaN' AS float)", "0.1F"),
    "double": ("NULL", "-0.0D", "0.1D"),
    "decimal(5, 2)": ("NULL", "999.99", "-0.01"),
    "decimal(12, 2)": ("NULL", "1234567890.12"),
    "string": ("NULL", "''", "'a'", "'ü/ %'"),
    "date": ("NULL", "DATE'1969-12-31'", "DATE'2024-02-29'"),
    "struct<x: int>": ("NULL", "named_struct('x', 1)", "named_struct('x', NULL)"),
    "array<int>": ("NULL", "array()", "array(1, NULL)"),
}
_WIDER = {"int": "bigint", "float": "double", "decimal(5, 2)": "decimal(12, 2)"}
_TRANSFORMS = {
    "int": ("{c}", "bucket(3, {c})", "truncate(10, {c})"),
    "bigint": ("{c}", "bucket(3, {c})", "truncate(10, {c})"),
    "string": ("{c}", "bucket(3, {c})", "truncate(1, {c})"),
    "date": ("{c}", "years({c})", "months({c})", "days({c})"),
}
_NO_KEYS = ("float", "double", "struct", "array")
"""Types that are no keys of equality deletes."""

_REWRITE = "CALL ice.system.{} (table => '{{ref}}', options => map('rewrite-all', 'true'))"


@dataclass(slots=True)
class _State:
    """What the statements so far have made of the table. made: columns, partition fields and tags ever named."""

    draw: Callable[..., object]
    version: int
    columns: dict[str, str]
    fields: dict[str, str] = field(default_factory=dict)
    made: int = 0

    def pick(self, *choices: str) -> str:
        return str(self.draw(st.sampled_from(choices)))

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def condition(self) -> str:
        number = self.draw(st.integers(0, 9))
        return self.pick(f"id = {number}", f"id > {number}", f"id % 3 = {number} % 3", "id IS NULL", "true")

    def others(self) -> list[str]:
        """Columns but the key, and but those by which a spec partitions."""
        return [name for name in self.columns if name != "id" and name not in self.fields.values()]


def _insert(state: _State) -> str:
    rows = []
    for _ in range(int(str(state.draw(st.integers(1, 4))))):
        key = state.pick("NULL", *map(str, range(10)))
        values = [key if name == "id" else state.pick(*_LITERALS[type_]) for name, type_ in state.columns.items()]
        rows.append(f"({', '.join(values)})")
    return f"INSERT INTO {{t}} VALUES {', '.join(rows)}"


def _update(state: _State) -> str:
    name = state.pick(*state.columns)
    return f"UPDATE {{t}} SET {name} = {state.pick(*_LITERALS[state.columns[name]])} WHERE {state.condition()}"


def _merge(state: _State) -> str:
    number = state.draw(st.integers(0, 9))
    return (
        f"MERGE INTO {{t}} USING (SELECT {number}L AS k UNION ALL SELECT {number} + 1) u ON {{t}}.id = u.k "
        f"WHEN MATCHED AND u.k = {number} THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (u.k)"
    )


def _add(state: _State) -> str:
    name, type_ = state.name("c"), state.pick(*_LITERALS)
    first = state.pick("", " FIRST")
    state.columns = {name: type_, **state.columns} if first else {**state.columns, name: type_}
    return f"ALTER TABLE {{t}} ADD COLUMN {name} {type_}{first}"


def _drop(state: _State) -> str | None:
    if not state.others() or state.fields:  # a column by which an old spec partitions may not go
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
    names = [name for name in state.others() if state.columns[name] in _WIDER]
    if not names:
        return None
    name = state.pick(*names)
    state.columns[name] = _WIDER[state.columns[name]]
    return f"ALTER TABLE {{t}} ALTER COLUMN {name} TYPE {state.columns[name]}"


def _partition(state: _State) -> str:
    name = state.pick(*(name for name, type_ in state.columns.items() if type_ in _TRANSFORMS))
    transform = state.pick(*_TRANSFORMS[state.columns[name]]).format(c=name)
    if state.fields:
        old, _ = state.fields.popitem()
        return f"ALTER TABLE {{t}} DROP PARTITION FIELD {old}"
    part = state.name("p")
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
    number = state.draw(st.integers(-1, 9))
    format = state.pick("PARQUET", "AVRO", "ORC")
    return equality_delete(*keys, where="id", equals=None if number == -1 else number, format=format, vacuous=True)


_OPERATIONS: tuple[Callable[[_State], Step | None], ...] = (
    _insert,
    _insert,
    _update,
    _merge,
    lambda state: f"DELETE FROM {{t}} WHERE {state.condition()}",
    lambda state: f"DELETE FROM {{t}} WHERE {state.condition()}",
    _delete_by_keys,
    _delete_by_keys,
    _add,
    _drop,
    _rename,
    _widen,
    _partition,
    _upgrade,
    lambda state: f"ALTER TABLE {{t}} CREATE TAG {state.name('t')}",
    lambda state: _REWRITE.format("rewrite_data_files"),
    lambda state: _REWRITE.format("rewrite_position_delete_files"),
    lambda state: (
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.format.default'='{state.pick('parquet', 'avro', 'orc')}')"
    ),
)


@st.composite
def histories(draw: Callable[..., object]) -> tuple[Step, ...]:
    """Statements: a table with a first insert, and up to eight operations on it."""
    state = _State(draw, int(str(draw(st.sampled_from((2, 3))))), {"id": "bigint", "s": "string", "n": "int"})
    properties = (ON_READ,) if draw(st.booleans()) else ()
    statements: list[Step] = [create("id bigint, s string, n int", state.version, *properties), _insert(state)]
    for operation in list(draw(st.lists(st.sampled_from(_OPERATIONS), min_size=4, max_size=8))):  # type: ignore[call-overload]
        if (statement := operation(state)) is not None:
            statements.append(statement)
    return tuple(statements)
