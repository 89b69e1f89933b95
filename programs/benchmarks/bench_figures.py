"""The benchmark's figures, with the readers and tasks of each."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from bench_changed import ID_TRACED, spread
from bench_made import BenchTable, Scale
from bench_planned import DAY, ROWS, date_of
from bench_rounds import Contender, Figure
from bench_scanned import RANGE

SUMS = "count(*), sum(k), sum(id)"
ALL_COLUMNS = f"{SUMS}, max(v), max(s), max(d), max(flag), max(amt), max(place.zone)"
_PAIR = ["k", "id"]
_FORMATS = {"iceberg": "Iceberg", "delta": "Delta"}
_SCANNED = {
    "iceberg none": "Iceberg, no deletes",
    "iceberg position": "Iceberg, position deletes",
    "iceberg vectors": "Iceberg, deletion vectors",
    "iceberg equality": "Iceberg, equality deletes",
    "delta none": "Delta, no deletes",
    "delta vectors": "Delta, deletion vectors",
}

_CHANGED = {
    "appends": "100 files, a commit each",
    "position": "position deletes in 100 files",
    "vectors": "deletion vectors of 100 files",
    "equality": "equality deletes of rows in 100 files",
    "rewritten": "100 files rewritten with updates and deletes",
}
_ROW_SUMS = "count(*), sum(k), sum(id), max(v), max(s), max(d)"
"""All columns of the tables whose changes are read."""
_MEMORY = "256MB"

ON_SPARK = "spark/"
"""The prefix of the names of Spark figures."""

Tables = Mapping[str, Mapping[str, BenchTable]]
"""The tables by maker and name."""


def figures(tables: Tables, scale: Scale) -> Iterator[Figure]:
    """Yield all figures except those on Spark, in the order of the page."""
    yield from _first_query(tables["scanned"])
    yield from _small_tables(tables["small"])
    yield from _many_files(tables["many"], scale)
    yield from _scans(tables["scanned"])
    yield from _shares(tables["scanned"], scale)
    yield from _arrow(tables["scanned"])
    yield from planning(tables["planned"], scale)
    yield from _comparing(tables["scanned"])
    yield from _changes(tables["changed"])
    yield from _traces(tables["changed"], scale)


def is_large(figure: str, scale: Scale) -> bool:
    """Return whether a figure is about the table with `scale.large_files`, which is only measured on request."""
    if scale.large_files in scale.planned_files:
        return False
    return figure.startswith("plan/") and figure.split("/")[2] == str(scale.large_files)


def _figure(figure: str, group: str, title: str, expected: list[int], *contenders: Contender, **more: bool) -> Figure:
    return Figure(figure=figure, group=group, title=title, expected=expected, contenders=contenders, **more)


def _peer(name: str, peer: str, task: str, **arguments: Any) -> Contender:
    return Contender(name=name, peer=peer, task=task, arguments=arguments)


def _floor(task: str, name: str = "plain DuckDB", **arguments: Any) -> Contender:
    return _peer(name, "floor", task, **arguments)


def _harness(task: str, name: str = "harness", **arguments: Any) -> Contender:
    return _peer(name, "harness", task, **arguments)


_pyiceberg = partial(_peer, "PyIceberg", "pyiceberg")
_deltalake = partial(_peer, "deltalake", "deltalake")


def _at(format: str, table: BenchTable) -> str | None:
    return table.metadata if format == "iceberg" else table.location


def _queries(format: str, table: BenchTable, select: str, **where: str) -> tuple[Contender, ...]:
    """Return the peers that run SQL queries."""
    arguments = {"format": format, "location": _at(format, table), "select": select, **where}
    peers = [("Polars", "polars"), ("DuckDB's extension", "duckdb_extension"), ("chDB", "chdb")]
    rust = _deltalake("query", location=table.location, select=select, **where)
    return (*(_peer(name, peer, "query", **arguments) for name, peer in peers), *((rust,) if format == "delta" else ()))


def _sums(format: str, table: BenchTable) -> tuple[Contender, ...]:
    return (_pyiceberg("sums", metadata=table.metadata),) if format == "iceberg" else ()


def _read(table: BenchTable, select: str, **where: str) -> tuple[Contender, Contender]:
    """Return the floor, and harness, which opens and plans the table each time."""
    floor = _floor("query", files=table.files, select=select, **where)
    return floor, _harness("query", location=table.location, select=select, **where)


def _first_query(tables: Mapping[str, BenchTable]) -> Iterator[Figure]:
    for format, title in _FORMATS.items():
        table = tables[f"{format} none"]
        words = ["sql", f"SELECT {SUMS} FROM t", "--table", f"t={table.location}", "--format", "csv"]
        yield _figure(
            f"first-query/{format}",
            "First query of a process",
            f"{title}, from the start of Python to its end",
            table.answer,
            *_read(table, SUMS),
            _harness("command", "harness sql", words=words),
            _harness("command", "harness info", words=["info", table.location]),
            *_queries(format, table, SUMS),
            *_sums(format, table),
            fresh=True,
        )


def _small_tables(tables: Mapping[str, BenchTable]) -> Iterator[Figure]:
    for format, title in _FORMATS.items():
        format_tables = [table for name, table in tables.items() if name.startswith(format)]
        locations, at = [table.location for table in format_tables], [_at(format, table) for table in format_tables]
        library = _pyiceberg("small", metadata=at) if format == "iceberg" else _deltalake("small", locations=locations)
        yield _figure(
            f"small/{format}",
            "Small tables",
            f"{len(format_tables)} {title} tables of some rows, all of them read to Arrow",
            [sum(table.answer[0] for table in format_tables)],
            _floor("small", tables=[table.files for table in format_tables]),
            _harness("small", locations=locations),
            _peer("Polars", "polars", "small", format=format, locations=at),
            library,
        )


def _many_files(tables: Mapping[str, BenchTable], scale: Scale) -> Iterator[Figure]:
    select = "count(*), sum(k)"
    for format, title in _FORMATS.items():
        table = tables[format]
        title = f"{title}, {scale.many_files:,} files of 100 rows"
        contenders = (*_read(table, select), *_queries(format, table, select))
        yield _figure(f"many-files/{format}", "Many small files", title, table.answer, *contenders)


def _scans(tables: Mapping[str, BenchTable]) -> Iterator[Figure]:
    for name in _SCANNED:
        table, format = tables[name], name.split()[0]
        peers = _queries(format, table, SUMS)
        if name == "iceberg equality":  # DuckDB's extension 1.5.5 compares every row with every key, which takes hours
            peers = tuple(peer for peer in peers if peer.peer != "duckdb_extension")
        planned = _harness("planned_before", "harness, planned before", location=table.location, select=SUMS)
        yield _scan(name, "", "", table, *_read(table, SUMS), planned, *peers, *_sums(format, table))
    for name in ("iceberg none", "iceberg vectors", "delta vectors"):
        # Polars' SQL has another syntax for a field of a struct.
        table, peers = tables[name], _queries(name.split()[0], tables[name], ALL_COLUMNS)
        extension = [peer for peer in peers if peer.peer == "duckdb_extension"]
        yield _scan(name, "/all-columns", ", all columns", table, *_read(table, ALL_COLUMNS), *extension)
    for name in ("iceberg none", "iceberg vectors"):
        table = tables[name]
        floor = _floor("query", files=table.files, select=SUMS, threads=1)
        planned = _harness("planned_before", "harness, planned before", location=table.location, select=SUMS, threads=1)
        yield _scan(name, "/one-thread", ", one thread", table, floor, planned)
    where = f"id BETWEEN {RANGE[0]} AND {RANGE[-1]}"
    for name in ("iceberg none", "iceberg vectors"):
        table = tables[f"{name}, range"]
        contenders = (*_read(table, SUMS, where=where), *_queries("iceberg", table, SUMS, where=where))
        yield _scan(name, "/range", f", {len(RANGE):,} rows by a range", table, *contenders)


def _scan(name: str, kind: str, how: str, table: BenchTable, *contenders: Contender) -> Figure:
    figure = f"scan/{name.replace(' ', '-')}{kind}"
    return _figure(figure, "Scans", f"{_SCANNED[name]}{how}", table.answer, *contenders)


def _shares(tables: Mapping[str, BenchTable], scale: Scale) -> Iterator[Figure]:
    group = "Deletion vectors by share of rows deleted"
    for shape in ("scattered", "clustered"):
        for share in scale.shares:
            table = tables[f"{shape} {share}"]
            polars, *_ = _queries("iceberg", table, SUMS)
            contenders = (*_read(table, SUMS), polars)
            yield _figure(f"share/{shape}/{share}", group, f"{share:.2%} {shape}", table.answer, *contenders)


def _arrow(tables: Mapping[str, BenchTable]) -> Iterator[Figure]:
    group = "Rows as Arrow"
    for format, title in _FORMATS.items():
        table = tables[f"{format} none"]
        yield _figure(
            f"arrow/{format}",
            group,
            f"{title}, two columns as one table",
            table.answer[:1],
            _floor("arrow", files=table.files, columns=_PAIR),
            _harness("arrow", location=table.location, columns=_PAIR),
            _peer("Polars", "polars", "arrow", format=format, location=_at(format, table), columns=_PAIR),
            _pyiceberg("arrow", metadata=table.metadata, columns=_PAIR)
            if format == "iceberg"
            else _deltalake("arrow", location=table.location, columns=_PAIR),
        )
    table = tables["iceberg none"]
    floor = _floor("stream", files=table.files, columns=_PAIR)
    ours = _harness("stream", location=table.location, columns=_PAIR)
    yield _figure("arrow/iceberg/stream", group, "Iceberg, two columns as batches", table.answer[:1], floor, ours)


def planning(tables: Mapping[str, BenchTable], scale: Scale) -> Iterator[Figure]:
    """Yield the figures of planning. `tables` are the tables of `bench_planned.planned`."""
    first, after, row_id = date_of(DAY), date_of(DAY + 1), scale.planned_files[0] // 2 * ROWS + 5
    times = f"ts >= TIMESTAMP '{first}' AND ts < TIMESTAMP '{after}'"
    iceberg = {"all": None, "day": times, "id": f"id = {row_id}"}
    pyiceberg = iceberg | {"day": f"ts >= '{first}T00:00:00' and ts < '{after}T00:00:00'"}
    delta = iceberg | {"day": f"day = DATE '{first}'"}
    titles = {"all": "all", "day": "one day of 100", "id": "one id"}
    for files in scale.planned_files:
        table = tables[f"iceberg {files}"]
        floor = _floor("manifests", "manifests inflated", files=table.files)
        for index, (kind, where) in enumerate(iceberg.items()):
            polars = _peer("Polars", "polars", "plan", format="iceberg", location=table.metadata, where=where)
            other = _pyiceberg("plan", metadata=table.metadata, where=pyiceberg[kind])
            title, answer = f"{files:,} files, {titles[kind]}", table.answer[index : index + 1]
            contenders = (floor, *_plans(table, where), polars, other)
            yield _figure(f"plan/iceberg/{files}/{kind}", "Planning Iceberg", title, answer, *contenders)
    for files in scale.planned_files:
        table = tables[f"delta {files}"]
        floor = _floor("checkpoint", "checkpoint as Arrow", files=table.files)
        for index, (kind, where) in enumerate(delta.items()):
            rust = _deltalake("plan", location=table.location, day=None if kind == "all" else first)
            title, answer = f"{files:,} files, {titles[kind]}", table.answer[index : index + 1]
            contenders = (floor, *_plans(table, where), *(() if kind == "id" else (rust,)))
            yield _figure(f"plan/delta/{files}/{kind}", "Planning Delta", title, answer, *contenders)


def _plans(table: BenchTable, where: str | None) -> tuple[Contender, Contender]:
    again = _harness("plan_again", "harness, asked again", location=table.location, where=where)
    return _harness("plan", location=table.location, where=where), again


def _comparing(tables: Mapping[str, BenchTable]) -> Iterator[Figure]:
    left, right = tables["iceberg vectors"], tables["delta vectors"]
    floor = _floor("twice", "plain DuckDB, two scans", files=left.files, select=ALL_COLUMNS)
    for name, title, keys in (("rows", "rows counted", []), ("keys", "paired by id", ["id"])):
        title = f"an Iceberg table and a Delta table with deletes, equal: {title}"
        ours = _harness("compare", left=left.location, right=right.location, keys=keys)
        yield _figure(f"compare/{name}", "Comparing two tables", title, [1], floor, ours)


def _changes(tables: Mapping[str, BenchTable]) -> Iterator[Figure]:
    group = "Changes of a range"
    for name, title in _CHANGED.items():
        table = tables[name]
        appends = _pyiceberg("appends", metadata=table.metadata, start=table.start)
        yield _figure(
            f"changes/{name}",
            group,
            title,
            table.answer,
            _floor("both_ends", "plain DuckDB, both ends", ends=[table.earlier_files, table.files], select=_ROW_SUMS),
            _harness(
                "read_at", "harness, both ends", location=table.location, at=[table.start, None], select=_ROW_SUMS
            ),
            _harness("changes", location=table.location, start=table.start, maxima=["k", "v", "s", "d"]),
            *((appends,) if name == "appends" else ()),
        )
    table = tables["commits"]
    ends, select = [table.earlier_files, table.files], "count(*), sum(id), max(text)"
    yield _figure(
        "changes/commits",
        group,
        f"{len(table.files):,} commits that append a file and delete rows",
        table.answer,
        _floor("both_ends", "plain DuckDB, both ends", ends=ends, select=select),
        _harness("read_at", "harness, both ends", location=table.location, at=[table.start, None], select=select),
        _harness("changes", location=table.location, start=table.start, maxima=["text"]),
        _harness("changes_as_batches", "harness, as batches", location=table.location, start=table.start),
        _harness(
            "changes_to_file",
            f"harness, to Parquet in {_MEMORY}",
            location=table.location,
            start=table.start,
            memory=_MEMORY,
        ),
    )


def _traces(tables: Mapping[str, BenchTable], scale: Scale) -> Iterator[Figure]:
    for format, title in _FORMATS.items():
        table = tables[f"{format} long"]
        conditions = {"id": ID_TRACED, "k": spread(ID_TRACED, scale.changed_rows)}
        for column, kind in (("id", "by a key with statistics"), ("k", "by a key without statistics")):
            yield _figure(
                f"trace/{format}/{column}",
                "Trace of a row",
                f"{title}, {len(table.files)} files, {scale.commits:,} versions, {kind}",
                table.answer,
                _floor("query", files=table.files, select=_ROW_SUMS),
                _harness("read_at", "harness, full read", location=table.location, at=[None], select=_ROW_SUMS),
                _harness("trace", location=table.location, where=f"{column} = {conditions[column]}"),
            )


def spark_figures(tables: Tables) -> Iterator[Figure]:
    """Yield the figures on Spark, each with harness and the format's own jar."""
    for name, title in _CHANGED.items():
        table = tables["changed"][name]
        ends = {"location": table.location, "start": table.start}
        yield _figure(
            f"{ON_SPARK}changes/{name}",
            "Changes of a range, on Spark",
            title,
            table.answer,
            _peer("Iceberg's jar, both ends", "spark_iceberg", "both_ends", **ends, select=_ROW_SUMS.split(", ")),
            _peer("harness", "spark_iceberg", "changes", **ends),
            _peer("Iceberg's view", "spark_iceberg", "changelog_view", **ends),
        )
    yield from _spark_scans(tables["scanned"])


def _spark_scans(tables: Mapping[str, BenchTable]) -> Iterator[Figure]:
    select = SUMS.split(", ")
    for name, title in _SCANNED.items():
        table, format = tables[name], name.split()[0]
        peer = f"spark_{format}"
        yield _figure(
            f"{ON_SPARK}{name.replace(' ', '-')}",
            "Spark",
            title,
            table.answer,
            _peer("plain Spark", peer, "plain", files=table.files, select=select),
            _peer("harness", peer, "harness", location=table.location, select=select),
            _peer("the format's jar", peer, "jar", location=_at(format, table), select=select),
        )
