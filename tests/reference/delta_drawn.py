"""Histories of a Delta table drawn by Hypothesis: statements, each valid after those before it."""

from __future__ import annotations

from dataclasses import dataclass, field

from delta_history import NTZ, WIDENING
from hypothesis import strategies as st

_PROPERTIES = (
    "'delta.enableDeletionVectors'='true'",
    "'delta.enableDeletionVectors'='true', 'delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='2'",
    "'delta.enableDeletionVectors'='false', 'delta.checkpointInterval'='3'",
    "'delta.enableRowTracking'='true', 'delta.enableDeletionVectors'='true'",
)
_WIDER = {"INT": "BIGINT", "DECIMAL(9, 2)": "DECIMAL(12, 4)", "DATE": "TIMESTAMP_NTZ"}
_TYPES = {"INT": "{n}", "STRING": "'s{n} /%'", "DATE": "DATE'2024-01-0{d}'", "DECIMAL(9, 2)": "{n}.25"}
_TYPES |= {
    "BIGINT": "300000000{n}",
    "DECIMAL(12, 4)": "1{n}.0625",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ'1969-12-31 23:0{d}:00.5'",
}

_CONDITIONS = ("id % 3 = 1", "id > 4", "id IN (1, 2, 7)", "p = 'a b'", "p IS NULL", "id < 0")


@dataclass(slots=True)
class _State:
    """The columns of the table after the statements so far: names to types, and how many there ever were."""

    columns: dict[str, str] = field(default_factory=lambda: {"c0": "STRING"})
    made: int = 1
    steps: int = 0

    def name(self) -> str:
        self.made += 1
        return f"c{self.made}"


@st.composite
def histories(draw: st.DrawFn) -> list[str]:
    """CREATE TABLE and up to eight statements, with `{t}` for the table."""
    partitions = draw(st.sampled_from(["", "PARTITIONED BY (p)"]))
    mode = draw(st.sampled_from(["name", "id"]))
    properties = f"'delta.columnMapping.mode'='{mode}', {WIDENING}, {NTZ}, {draw(st.sampled_from(_PROPERTIES))}"
    create = (
        f"CREATE TABLE {{t}} (id BIGINT, p STRING, c0 STRING) USING delta {partitions} TBLPROPERTIES ({properties})"
    )
    state = _State()
    kinds = st.sampled_from(
        ["insert", "delete", "update", "merge", "add", "rename", "drop", "widen", "optimize", "restore"]
    )
    drawn = [_statement(draw, "insert", state)]
    drawn += [_statement(draw, draw(kinds), state) for _ in range(draw(st.integers(3, 7)))]
    return [create, *drawn]


def _statement(draw: st.DrawFn, kind: str, state: _State) -> str:
    state.steps += 1
    where = draw(st.sampled_from(_CONDITIONS))
    match kind:
        case "insert":
            rows = ", ".join(_row(draw, state) for _ in range(draw(st.integers(1, 4))))
            return f"INSERT INTO {{t}} ({', '.join(['id', 'p', *state.columns])}) VALUES {rows}"
        case "delete":
            return f"DELETE FROM {{t}} WHERE {where}"
        case "update":
            column = draw(st.sampled_from(sorted(state.columns)))
            return f"UPDATE {{t}} SET id = id + 1, {column} = NULL WHERE {where}"
        case "merge":
            return (
                "MERGE INTO {t} USING (SELECT id AS k FROM range(6)) u ON {t}.id = u.k "
                "WHEN MATCHED AND u.k < 2 THEN DELETE WHEN MATCHED THEN UPDATE SET p = 'merged' "
                "WHEN NOT MATCHED AND u.k > 3 THEN INSERT (id, p) VALUES (u.k, 'a b')"
            )
        case "add":
            name, type_ = state.name(), draw(st.sampled_from(sorted(_TYPES)))
            state.columns[name] = type_
            return f"ALTER TABLE {{t}} ADD COLUMNS ({name} {type_})"
        case "rename":
            old, new = draw(st.sampled_from(sorted(state.columns))), state.name()
            state.columns = {new if name == old else name: type_ for name, type_ in state.columns.items()}
            return f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}"
        case "drop" if len(state.columns) > 1:
            old = draw(st.sampled_from(sorted(state.columns)))
            del state.columns[old]
            return f"ALTER TABLE {{t}} DROP COLUMN {old}"
        case "widen" if names := sorted(name for name, type_ in state.columns.items() if type_ in _WIDER):
            name = draw(st.sampled_from(names))
            state.columns[name] = _WIDER[state.columns[name]]
            return f"ALTER TABLE {{t}} ALTER COLUMN {name} TYPE {state.columns[name]}"
        case "restore" if state.columns == {"c0": "STRING"}:
            return "RESTORE TABLE {t} TO VERSION AS OF 1"
        case _:
            return "OPTIMIZE {t}"


def _row(draw: st.DrawFn, state: _State) -> str:
    number = draw(st.integers(0, 9))
    values = [str(number), draw(st.sampled_from(["'a b'", "NULL", "'é=/%'"]))]
    for type_ in state.columns.values():
        value = _TYPES[type_].format(n=number, d=number % 9 + 1)
        values.append(draw(st.sampled_from([value, value, "NULL"])))
    return f"({', '.join(values)})"
