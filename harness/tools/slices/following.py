"""`pull_joined`: slices of several tables that keep their joins, each with the rows that the ones before refer to."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError, RequestError
from harness.metadata.delta.table import DeltaTable
from harness.metadata.filters import sqltext
from harness.metadata.filters.predicate import Constant, Filter, In, disjunction
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.model.arguments import checked
from harness.metadata.model.schema import DecimalType, Field, IntegerType, StringType, arrow_type
from harness.snapshot import Snapshot, reading
from harness.table import Table, open_table
from harness.tools.slices.place import NOTE, SlicePlace
from harness.tools.slices.pulling import Pulled, identity_of, make, newest
from harness.tools.slices.request import SliceRequest

_MOST = 200_000  # keys that are written into a filter
_STEP = re.compile(r"(?P<table>[^.=]+)\.(?P<column>[^=]+)=(?P<to_table>[^.=]+)\.(?P<to_column>[^=]+)")


@dataclass(frozen=True, slots=True)
class Step:
    """`table.column=to_table.to_column`: rows of `to_table` are taken that rows of `table` refer to."""

    table: str
    column: str
    to_table: str
    to_column: str

    @staticmethod
    def of(text: str) -> Step:
        """Raises RequestError: the text is of another form."""
        found = _STEP.fullmatch(text)
        if found is None:
            raise RequestError(f"Invalid follow={text!r}: expected orders.customer=customers.id", options=("follow",))
        return Step(*found.groups())

    def __str__(self) -> str:
        return f"{self.table}.{self.column}={self.to_table}.{self.to_column}"


@checked
def pull_joined(
    tables: Mapping[str, Snapshot | Table | str | os.PathLike[str]],
    directory: str | os.PathLike[str],
    *,
    follow: Sequence[str],
    request: SliceRequest | None = None,
) -> dict[str, Pulled]:
    """Make slices of several tables, each in a directory of its name, that join as their sources do.

    The first table's slice is made as asked. Of each other table those rows are taken that rows of a slice before it
    refer to, and no others; deleted ones stay deleted.

    Args:
        tables: by the names that `follow` uses; the first is where it begins.
        directory: for the slices: `directory/orders`, …
        follow: `orders.customer=customers.id`: of customers the rows whose id is a customer of the orders. Columns are
            integers, decimals or texts.
        request: what the first slice holds; None: everything.

    Raises:
        RequestError: a step is none, leads from a table that nothing leads to, or in a circle; or there are too many
            keys.
        As `harness.pull`.
    """
    asked = request or SliceRequest()
    if asked.anonymise is not None:
        return _anonymised(tables, Path(directory), follow, asked)
    steps = [Step.of(text) for text in follow]
    found: dict[str, Pulled] = {}
    left = asked.max_bytes
    for name in _in_order(next(iter(tables)), steps):
        if name not in tables:
            raise RequestError(f"Cannot follow: no table is called {name}", options=("follow",))
        snapshot = newest(tables[name])
        own = replace(asked, max_bytes=left)
        if found:
            into = [step for step in steps if step.to_table == name]
            where = _referred(snapshot, into, Path(directory))
            own = SliceRequest(where=where, exact=True, follows=tuple(map(str, into)), max_bytes=left)
        with reading(snapshot.source, snapshot.selection.snapshot):
            found[name] = make(snapshot, Path(directory) / name, own)
        left = None if left is None else max(0, left - found[name].bytes)
    return found


def _anonymised(
    tables: Mapping[str, Snapshot | Table | str | os.PathLike[str]],
    directory: Path,
    follow: Sequence[str],
    request: SliceRequest,
) -> dict[str, Pulled]:
    """Slices of slices: which rows are referred to shows in values that have not become others yet."""
    key = request.anonymise
    for name in tables:
        SlicePlace(directory / name, "metadata").check()
    with TemporaryDirectory(prefix="harness-pull-") as plain:
        found = pull_joined(tables, plain, follow=follow, request=replace(request, anonymise=None))
        for name, told in found.items():
            snapshot = newest(told.directory)
            with reading(snapshot.source, snapshot.selection.snapshot):
                made = make(snapshot, directory / name, SliceRequest(anonymise=key))
            found[name] = replace(told, directory=made.directory, notes=(*told.notes, *made.notes))
    return found


def _in_order(first: str, steps: Sequence[Step]) -> list[str]:
    """The tables, each behind all that lead to it."""
    names = {first, *(step.to_table for step in steps)}
    stray = sorted({step.table for step in steps} - names)
    if stray:
        raise RequestError(f"Cannot follow: nothing leads to {', '.join(stray)}", options=("follow",))
    order: list[str] = []
    while len(order) < len(names):
        ready = [n for n in sorted(names - {*order}) if all(s.table in order for s in steps if s.to_table == n)]
        if (not order and first not in ready) or not ready:
            raise RequestError("Cannot follow: the steps lead in a circle", options=("follow",))
        order += [first] if not order else ready
    return order


def _referred(snapshot: Snapshot, steps: Sequence[Step], directory: Path) -> Filter:
    """The filter of the rows that the slices refer to."""
    parts = []
    for step in steps:
        (column,) = bind_columns((step.to_column,), snapshot.schema)
        values = _keys(step, column, directory / step.table)
        name, texts = sqltext.name(column.name), [sqltext.literal(value, column.type) for value in values]
        parts.append(
            Filter(sql=f"{name} IN ({', '.join(texts)})", predicate=In(column, tuple(values)), columns=(column,))
            if values
            else Filter(sql="false", predicate=Constant(value=False), columns=())
        )
    distinct = {column.id: column for part in parts for column in part.columns}
    return Filter(
        sql=" OR ".join(f"({part.sql})" for part in parts),
        predicate=disjunction(tuple(part.predicate for part in parts)),
        columns=tuple(distinct.values()),
    )


def _keys(step: Step, column: Field, directory: Path) -> list[Any]:
    """The values that rows of a slice have, in any of its snapshots, as the other column's type has them."""
    kind = arrow_type(column.type)
    if not isinstance(column.type, IntegerType | DecimalType | StringType):
        raise RequestError(
            f"Cannot follow {step}: {step.to_column} is a {column.type}, expected integers, decimals or texts",
            field=step.to_column,
            options=("follow",),
        )
    table = open_table(directory)
    values: set[Any] = set()
    for point in table.snapshots():
        rows = table.snapshot(point["id"]).to_arrow(columns=[step.column])
        distinct = pc.unique(rows.column(0))
        try:
            values.update(distinct.cast(kind).to_pylist())
        except pa.ArrowException as error:
            raise RequestError(
                f"Cannot follow {step}: {step.column} is no {column.type}: {error}", options=("follow",)
            ) from error
    values.discard(None)
    if len(values) > _MOST:
        raise RequestError(
            f"Cannot follow {step}: the slice refers to {len(values):,} rows, at most {_MOST:,} can be asked for; "
            "narrow the filter",
            options=("follow",),
        )
    return sorted(values)


# `refresh`: a slice brought to its source's newest snapshot, as if it were pulled anew, fetching what is new.


@checked
def refresh(source: Snapshot | Table | str | os.PathLike[str], directory: str | os.PathLike[str]) -> Pulled:
    """Bring a slice to the newest snapshot of its source, under the filter and the options that it was pulled with.

    Files that are there are not fetched again, but those that `exact`, `columns`, `sample_rows` and `compact` change.
    The slice is as if it were pulled anew: what its older snapshots had and the newest have not goes.

    Args:
        source: the table that the slice was pulled from, or its location.
        directory: of the slice.

    Raises:
        RequestError: the directory is no slice, or one that cannot follow its source: another table is there, it was
            rolled back, the slice's snapshot has expired, or the slice was written to. Pull anew.
        As `harness.pull`.
    """
    place = Path(directory)
    note = _note(place)
    before = note["snapshots"]
    snapshot = newest(source)
    with reading(snapshot.source, snapshot.selection.snapshot):
        table = snapshot.source
        if "follows" in note["request"]:
            _refuse(place, "it has the rows that another slice refers to")
        if "anonymised" in note["request"]:
            _refuse(place, "it is anonymised, so its note does not say what it was pulled from, nor by which filter")
        if table.format != note["format"]:
            _refuse(place, f"its format is {note['format']}, and the source's is {table.format}")
        if identity_of(snapshot) != note["identity"]:
            _refuse(place, "another table is at the source's place now")
        base = before[-1] if before else None
        if base is not None and not _follows(snapshot, base):
            _refuse(place, f"its snapshot {base} has expired in the source, or is not in the newest one's past")
        try:
            own = open_table(place, format_hint=note["format"])
        except HarnessError as error:
            _refuse(place, f"it cannot be read ({error.message})")
        if (None if own.source.current is None else own.source.current.id) != base:
            _refuse(place, "it was written to since it was pulled")
        if base is not None and snapshot.id == base:
            return Pulled(
                directory=str(directory), format=note["format"], snapshots=tuple(before), files=0, bytes=0, made=False
            )
        asked: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in note["request"].items()}
        return make(snapshot, place, SliceRequest(**asked), refreshed=note["refreshed"] + 1)


def _note(place: Path) -> dict[str, Any]:
    try:
        note: dict[str, Any] = json.loads((place / NOTE).read_text(encoding="utf-8"))
        if not {"format", "identity", "snapshots", "request", "refreshed"} <= note.keys():
            raise ValueError("it lacks a part")
    except (OSError, ValueError) as error:
        raise RequestError(f"Cannot refresh {place}: it is no slice, as its {NOTE} cannot be read ({error})") from error
    return note


def _follows(snapshot: Snapshot, base: int) -> bool:
    """Tells whether `base` is in the past of a snapshot, as far as the source knows it."""
    table: Any = snapshot.source
    if isinstance(table, DeltaTable):
        return any(base in versions and snapshot.id in versions for versions in table.readable())
    snapshots = table.metadata.snapshots
    at, seen = snapshots.get(snapshot.id), set[int]()
    while at is not None and at.id not in seen and at.id != base:
        seen.add(at.id)
        at = None if at.parent_id is None else snapshots.get(at.parent_id)
    return at is not None and at.id == base


def _refuse(place: Path, reason: str) -> NoReturn:
    raise RequestError(f"Cannot refresh {place}: {reason}; pull anew")
