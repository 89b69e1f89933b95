"""`pull`: a slice of a table in a directory, a valid table of the same format whose rows are the source's.

    harness.pull("s3://bucket/orders", "slice", where="day >= DATE '2024-06-01'")

The law: under the filter, the slice gives the rows that the source gives. Whole files are taken, so without the filter
it may give more, unless it is to be exact.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError, RequestError, warn
from harness.metadata.delta.table import DeltaTable
from harness.metadata.filters import sqltext
from harness.metadata.filters.predicate import Constant, Filter, In, disjunction
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.model.arguments import checked
from harness.metadata.model.schema import DecimalType, Field, IntegerType, StringType, arrow_type
from harness.slices.place import NOTE, Slice, SlicePlace, discard_stale, fetch
from harness.slices.request import SliceRequest
from harness.snapshot import Snapshot, reading
from harness.storage.paths import shown
from harness.storage.threads import phase
from harness.table import Table, open_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """The result of a pull, or of a trial.

    directory: of the slice, as given. format: `iceberg` or `delta`. snapshots: ids or versions, oldest first.
    files, bytes: of the source. reused: files that were there from an interrupted pull.
    made: True: a slice was made, or made newer. notes: a sentence for each lack of the slice.
    """

    directory: str
    format: str
    snapshots: tuple[int, ...]
    files: int
    bytes: int
    reused: int = 0
    made: bool = True
    notes: tuple[str, ...] = ()


@checked
def pull(
    source: Snapshot | Table | str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    where: str | None = None,
    last: int = 1,
    columns: Sequence[str] | None = None,
    exact: bool = False,
    sample_rows: int | None = None,
    seed: int = 0,
    compact: bool = False,
    anonymise: str | None = None,
    statistics: bool = True,
    reverse: bool = False,
    max_bytes: int | None = None,
    dry_run: bool = False,
) -> Pulled:
    """Make a slice of a table: a table of the same format in `directory`, with the files that the filter needs.

    Under the filter the slice gives the rows that the source gives; data files are taken whole, and deletes stay
    deletes. Schemas, specs, ids, sequence numbers, properties and protocol are the source's; the metadata names only
    files of the slice. `_harness_slice.json` says where it came from.

    If a pull is interrupted, no table is there, and the same call goes on where it ended.

    Args:
        source: a snapshot; or a table, or its location: the current snapshot.
        directory: a new or empty local directory. Recorded paths are absolute: other readers want it to stay there.
        where: a boolean SQL expression; None: all rows.
        last: the newest `last` snapshots, up to `source`; the oldest becomes the root.
        columns: names of the slice's columns; None: all. Columns that partitions, equality deletes and generated
            columns need must be among them.
        exact: leave out rows that the filter drops. Files that lose rows are written anew, and positions of deletes
            follow.
        sample_rows: keep so many rows of those that the filter lets through, the same ones for the same `seed`, and
            deleted rows in their measure.
        compact: apply the deletes: the slice has live rows, and no deletes.
        anonymise: a key, which chooses other values: of the same types, null where they were null, equal where they
            were equal, in every slice that is made with this key. Texts that people or writers left in the metadata
            are left out. `docs/how-to/pull-a-slice.md` says how much the slice tells all the same.
        statistics: False: the slice's metadata has no bounds and counts of values, as far as its format lets it.
        reverse: the slice's metadata lists files and manifests in the reverse order.
        max_bytes: more bytes of the source are an error, before anything is copied.
        dry_run: count the files to copy; write nothing.

    Raises:
        RequestError: the directory is not empty, the slice is larger than `max_bytes`, or as planning a read says.
        UnsupportedError: a slice cannot hold a part of the table.
        StorageError: a file cannot be read or written.
        As `harness.open_table` and `Snapshot.plan`.
    """
    request = SliceRequest(
        where=where,
        last=last,
        columns=None if columns is None else tuple(columns),
        exact=exact,
        sample_rows=sample_rows,
        seed=seed,
        compact=compact,
        anonymise=anonymise,
        statistics=statistics,
        reverse=reverse,
        max_bytes=max_bytes,
    )
    snapshot = newest(source)
    with reading(snapshot.source, snapshot.selection.snapshot):
        return make(snapshot, Path(directory), request, dry_run=dry_run)


def make(
    snapshot: Snapshot, directory: Path, request: SliceRequest, *, refreshed: int = 0, dry_run: bool = False
) -> Pulled:
    """Make a slice, or a newer one in place of it.

    refreshed: the number of refreshes of the slice in the directory, with this one; 0: there is none.
    """
    source: Any = snapshot.source
    selection: Any = snapshot.selection
    place = SlicePlace(directory, "_delta_log" if isinstance(source, DeltaTable) else "metadata")
    if not refreshed:
        place.check()
    planned: Slice
    if isinstance(source, DeltaTable):  # no module of the other format is imported
        from harness.slices.delta import pulling as delta

        planned = delta.planned_slice(source, selection, request, refreshed)
    else:
        from harness.slices.iceberg import pulling as iceberg

        planned = iceberg.planned_slice(source, selection, request, refreshed)
    files, storage = planned.files, planned.storage
    size = sum(storage.size(file.physical) if file.size is None else file.size for file in files)
    size += planned.read_besides
    if request.max_bytes is not None and size > request.max_bytes:
        raise RequestError(
            f"Cannot pull: the slice needs {size:,} bytes in {len(files):,} files, max_bytes={request.max_bytes} "
            "allows less; narrow the filter",
            table=snapshot.source.location,
            options=("max_bytes",),
        )
    told = Pulled(
        directory=str(directory),
        format=snapshot.source.format,
        snapshots=planned.points,
        files=len(files),
        bytes=size,
        made=not dry_run,
    )
    if dry_run:
        return told
    origin = {
        "format": snapshot.source.format,
        "location": shown(snapshot.source.location),
        "identity": identity_of(snapshot),
        "snapshots": list(planned.points),
        "request": request.as_dict(),
        "refreshed": refreshed,
    }
    place.begin(origin, refresh=refreshed > 0)
    fetched, reused = fetch(files, storage, place, max_bytes=request.max_bytes, link=request.link)
    with phase("writing the slice"):
        notes = planned.write(place, fetched)
    sentence = None if storage.roots is None else storage.roots.told()
    if sentence is not None:
        warn(f"Table {shown(snapshot.source.location)}: {sentence}")
    is_anonymised = request.anonymise is not None
    if is_anonymised:
        origin |= {"location": None, "identity": None}
    note = {
        "harness": sys.modules["harness"].__version__,  # the package itself imports what is above this layer
        "pulled": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **origin,
        "files": told.files,
        "bytes": told.bytes,
        "notes": notes,
    }
    place.publish(note, journal=not is_anonymised)
    if refreshed:
        discard_stale(place.directory, fetched, refreshed)
    for sentence in notes:
        warn(f"Slice {place.directory}: {sentence}")
    return replace(told, reused=reused, notes=tuple(notes))


def newest(source: Snapshot | Table | str | os.PathLike[str]) -> Snapshot:
    """A snapshot, or the current one of a table."""
    if isinstance(source, Snapshot):
        return source
    return (source if isinstance(source, Table) else open_table(source)).snapshot()


def identity_of(snapshot: Snapshot) -> str | None:
    """The identity of a snapshot's table among tables at its place."""
    source: Any = snapshot.source
    selection: Any = snapshot.selection
    found: str | None = selection.snapshot.state.metadata.id if isinstance(source, DeltaTable) else source.metadata.uuid
    return found


# `pull_joined`: slices of several tables that keep their joins, each with the rows that the slices before refer to.


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
        request: for the first slice; None: all of its table.

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
    """Slices of slices: the values before they become others tell which rows are referred to."""
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
    before = {name: {step.table for step in steps if step.to_table == name} for name in sorted(names)}
    try:
        order = [*TopologicalSorter(before).static_order()]
    except CycleError:
        order = []
    if order[:1] != [first]:
        raise RequestError("Cannot follow: the steps lead in a circle", options=("follow",))
    return order


def _referred(snapshot: Snapshot, steps: Sequence[Step], directory: Path) -> Filter:
    columns: dict[int, Field] = {}
    wanted: list[tuple[str, In]] = []
    for step in steps:
        (column,) = bind_columns((step.to_column,), snapshot.schema)
        values = _keys(step, column, directory / step.table)
        if values:
            columns[column.id] = column
            texts = ", ".join(sqltext.literal(value, column.type) for value in values)
            wanted.append((f"({sqltext.name(column.name)} IN ({texts}))", In(column, tuple(values))))
    return Filter(
        sql=" OR ".join(text for text, _ in wanted) or "false",
        predicate=disjunction(tuple(part for _, part in wanted)) if wanted else Constant(value=False),
        columns=tuple(columns.values()),
    )


def _keys(step: Step, column: Field, directory: Path) -> list[object]:
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


# `refresh`: a slice brought to its source's newest snapshot, as if pulled anew, with new files alone fetched.


@checked
def refresh(source: Snapshot | Table | str | os.PathLike[str], directory: str | os.PathLike[str]) -> Pulled:
    """Bring a slice to the newest snapshot of its source, under the filter and the options that it was pulled with.

    Files that are there are not fetched again, unless `exact`, `columns`, `sample_rows` or `compact` change them. The
    slice is as if it were pulled anew: data that the newest snapshots lack goes.

    Args:
        source: the table that the slice was pulled from, or its location.
        directory: of the slice.

    Raises:
        RequestError: the directory is no slice, or one that cannot follow its source: another table is there, it was
            rolled back, the slice's snapshot has expired, or the slice was written to. Pull anew.
        As `harness.pull`.
    """
    place = Path(directory)
    note = _read_note(place)
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


def _read_note(place: Path) -> dict[str, Any]:
    try:
        note: dict[str, object] = json.loads((place / NOTE).read_text(encoding="utf-8"))
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
