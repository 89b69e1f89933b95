"""The table: which figures there are, and who is asked what for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench_contenders import Contender
from bench_made import Made
from bench_planned import DAY, ROWS, date_of
from bench_rounds import Figure
from bench_scales import Scale
from bench_scanned import RANGE

SUMS = "count(*), sum(k), sum(id)"
ALL_COLUMNS = f"{SUMS}, max(v), max(s), max(d), max(flag), max(amt), max(place.zone)"
_PAIR = ["k", "id"]
_SCANNED = {
    "iceberg none": "Iceberg, no deletes",
    "iceberg position": "Iceberg, position deletes",
    "iceberg vectors": "Iceberg, deletion vectors",
    "iceberg equality": "Iceberg, equality deletes",
    "delta none": "Delta, no deletes",
    "delta vectors": "Delta, deletion vectors",
}

ON_SPARK = "spark/"
"""How the names of the figures on Spark begin."""

Tables = Mapping[str, Mapping[str, Made]]
"""By maker, then by name."""


def figures(tables: Tables, scale: Scale) -> Iterator[Figure]:
    """All figures but those on Spark, in the order of the page."""
    yield from _first_query(tables["scanned"])
    yield from _small_tables(tables["small"])
    yield from _many_files(tables["many"], scale)
    yield from _scans(tables["scanned"])
    yield from _shares(tables["scanned"], scale)
    yield from _arrow(tables["scanned"])
    yield from _planning(tables["planned"], scale)
    yield from _comparing(tables["scanned"])


def large_figures(tables: Mapping[str, Made], scale: Scale) -> Iterator[Figure]:
    """The figures of planning alone; `tables` are those of `bench_planned.planned`."""
    yield from _planning(tables, scale)


def is_large(figure: str, scale: Scale) -> bool:
    """Whether a figure is of the table with `scale.large_files`, which is measured where it is asked for."""
    if scale.large_files in scale.planned_files:
        return False
    return figure.startswith("plan/") and figure.split("/")[2] == str(scale.large_files)


def _floor(task: str, name: str = "plain DuckDB", **arguments: Any) -> Contender:
    return Contender(name=name, peer="floor", task=task, arguments=arguments)


def _harness(task: str, name: str = "harness", **arguments: Any) -> Contender:
    return Contender(name=name, peer="harness", task=task, arguments=arguments)


def _queries(format: str, table: Made, select: str, **where: str) -> tuple[Contender, ...]:
    """The peers that run queries in SQL."""
    at = table.metadata if format == "iceberg" else table.location
    asked = {"format": format, "location": at, "select": select, **where}
    rust = {"location": table.location, "select": select, **where}
    return (
        Contender(name="Polars", peer="polars", task="query", arguments=asked),
        Contender(name="DuckDB's extension", peer="duckdb_extension", task="query", arguments=asked),
        Contender(name="chDB", peer="chdb", task="query", arguments=asked),
        *((Contender(name="deltalake", peer="deltalake", task="query", arguments=rust),) if format == "delta" else ()),
    )


def _pyiceberg(task: str, **arguments: Any) -> Contender:
    return Contender(name="PyIceberg", peer="pyiceberg", task=task, arguments=arguments)


def _first_query(tables: Mapping[str, Made]) -> Iterator[Figure]:
    for format, title in (("iceberg", "Iceberg"), ("delta", "Delta")):
        table = tables[f"{format} none"]
        words = ["sql", f"SELECT {SUMS} FROM t", "--table", f"t={table.location}", "--format", "csv"]
        yield Figure(
            figure=f"first-query/{format}",
            group="First query of a process",
            title=f"{title}, from the start of Python to its end",
            expected=table.answer,
            contenders=(
                _floor("query", files=table.files, select=SUMS),
                _harness("query", location=table.location, select=SUMS),
                _harness("command", "harness sql", words=words),
                _harness("command", "harness info", words=["info", table.location]),
                *_queries(format, table, SUMS),
                *((_pyiceberg("sums", metadata=table.metadata),) if format == "iceberg" else ()),
            ),
            fresh=True,
        )


def _small_tables(tables: Mapping[str, Made]) -> Iterator[Figure]:
    for format, title in (("iceberg", "Iceberg"), ("delta", "Delta")):
        chosen = [table for name, table in tables.items() if name.startswith(format)]
        locations, metadata = [table.location for table in chosen], [table.metadata for table in chosen]
        at = metadata if format == "iceberg" else locations
        own = (
            _pyiceberg("small", metadata=metadata)
            if format == "iceberg"
            else Contender(name="deltalake", peer="deltalake", task="small", arguments={"locations": locations})
        )
        yield Figure(
            figure=f"small/{format}",
            group="Small tables",
            title=f"{len(chosen)} {title} tables of some rows, all of them read to Arrow",
            expected=[sum(table.answer[0] for table in chosen)],
            contenders=(
                _floor("small", tables=[table.files for table in chosen]),
                _harness("small", locations=locations),
                Contender(name="Polars", peer="polars", task="small", arguments={"format": format, "locations": at}),
                own,
            ),
        )


def _many_files(tables: Mapping[str, Made], scale: Scale) -> Iterator[Figure]:
    select = "count(*), sum(k)"
    for format, title in (("iceberg", "Iceberg"), ("delta", "Delta")):
        table = tables[format]
        yield Figure(
            figure=f"many-files/{format}",
            group="Many small files",
            title=f"{title}, {scale.many_files:,} files of 100 rows",
            expected=table.answer,
            contenders=(
                _floor("query", files=table.files, select=select),
                _harness("query", location=table.location, select=select),
                *_queries(format, table, select),
            ),
        )


def _scans(tables: Mapping[str, Made]) -> Iterator[Figure]:
    for name, title in _SCANNED.items():
        yield _scan(name, title, tables[name])
    for name in ("iceberg none", "iceberg vectors", "delta vectors"):
        yield _other_scan(name, f"{_SCANNED[name]}, all columns", "all-columns", tables[name], ALL_COLUMNS)
    for name in ("iceberg none", "iceberg vectors"):
        yield _one_thread(name, f"{_SCANNED[name]}, one thread", tables[name])
    for name in ("iceberg none", "iceberg vectors"):
        yield _range(name, f"{_SCANNED[name]}, {len(RANGE):,} rows by a range", tables[f"{name}, range"])


def _scan(name: str, title: str, table: Made) -> Figure:
    format = name.split(maxsplit=1)[0]
    peers = _queries(format, table, SUMS)
    if name == "iceberg equality":  # DuckDB's extension 1.5.5 holds every row against every key: hours
        peers = tuple(peer for peer in peers if peer.peer != "duckdb_extension")
    return Figure(
        figure=f"scan/{name.replace(' ', '-')}",
        group="Scans",
        title=title,
        expected=table.answer,
        contenders=(
            _floor("query", files=table.files, select=SUMS),
            _harness("query", location=table.location, select=SUMS),
            _harness("held", "harness, planned before", location=table.location, select=SUMS),
            *peers,
            *((_pyiceberg("sums", metadata=table.metadata),) if format == "iceberg" else ()),
        ),
    )


def _other_scan(name: str, title: str, kind: str, table: Made, select: str) -> Figure:
    # Polars' SQL has another way to say a field of a struct.
    peers = [peer for peer in _queries(name.split(maxsplit=1)[0], table, select) if peer.peer == "duckdb_extension"]
    return Figure(
        figure=f"scan/{name.replace(' ', '-')}/{kind}",
        group="Scans",
        title=title,
        expected=table.answer,
        contenders=(
            _floor("query", files=table.files, select=select),
            _harness("query", location=table.location, select=select),
            *peers,
        ),
    )


def _one_thread(name: str, title: str, table: Made) -> Figure:
    return Figure(
        figure=f"scan/{name.replace(' ', '-')}/one-thread",
        group="Scans",
        title=title,
        expected=table.answer,
        contenders=(
            _floor("query", files=table.files, select=SUMS, threads=1),
            _harness("held", "harness, planned before", location=table.location, select=SUMS, threads=1),
        ),
    )


def _range(name: str, title: str, table: Made) -> Figure:
    where = f"id BETWEEN {RANGE[0]} AND {RANGE[-1]}"
    return Figure(
        figure=f"scan/{name.replace(' ', '-')}/range",
        group="Scans",
        title=title,
        expected=table.answer,
        contenders=(
            _floor("query", files=table.files, select=SUMS, where=where),
            _harness("query", location=table.location, select=SUMS, where=where),
            *_queries("iceberg", table, SUMS, where=where),
        ),
    )


def _shares(tables: Mapping[str, Made], scale: Scale) -> Iterator[Figure]:
    for shape in ("scattered", "clustered"):
        for share in scale.shares:
            table = tables[f"{shape} {share}"]
            yield Figure(
                figure=f"share/{shape}/{share}",
                group="Deletion vectors by share of rows deleted",
                title=f"{share:.2%} {shape}",
                expected=table.answer,
                contenders=(
                    _floor("query", files=table.files, select=SUMS),
                    _harness("query", location=table.location, select=SUMS),
                    *(peer for peer in _queries("iceberg", table, SUMS) if peer.peer == "polars"),
                ),
            )


def _arrow(tables: Mapping[str, Made]) -> Iterator[Figure]:
    for format, title in (("iceberg", "Iceberg"), ("delta", "Delta")):
        table = tables[f"{format} none"]
        at = table.metadata if format == "iceberg" else table.location
        asked = {"format": format, "location": at, "columns": _PAIR}
        own = (
            _pyiceberg("arrow", metadata=table.metadata, columns=_PAIR)
            if format == "iceberg"
            else Contender(
                name="deltalake",
                peer="deltalake",
                task="arrow",
                arguments={"location": table.location, "columns": _PAIR},
            )
        )
        yield Figure(
            figure=f"arrow/{format}",
            group="Rows as Arrow",
            title=f"{title}, two columns as one table",
            expected=table.answer[:1],
            contenders=(
                _floor("arrow", files=table.files, columns=_PAIR),
                _harness("arrow", location=table.location, columns=_PAIR),
                Contender(name="Polars", peer="polars", task="arrow", arguments=asked),
                own,
            ),
        )
    table = tables["iceberg none"]
    yield Figure(
        figure="arrow/iceberg/stream",
        group="Rows as Arrow",
        title="Iceberg, two columns as batches",
        expected=table.answer[:1],
        contenders=(
            _floor("stream", files=table.files, columns=_PAIR),
            _harness("stream", location=table.location, columns=_PAIR),
        ),
    )


def _planning(tables: Mapping[str, Made], scale: Scale) -> Iterator[Figure]:
    first, after, wanted = date_of(DAY), date_of(DAY + 1), scale.planned_files[0] // 2 * ROWS + 5
    times = f"ts >= TIMESTAMP '{first}' AND ts < TIMESTAMP '{after}'"
    iceberg = {
        "all": (None, None, None),
        "day": (times, times, f"ts >= '{first}T00:00:00' and ts < '{after}T00:00:00'"),
        "id": (f"id = {wanted}", f"id = {wanted}", f"id = {wanted}"),
    }
    delta = {"all": None, "day": f"day = DATE '{first}'", "id": f"id = {wanted}"}
    titles = {"all": "all", "day": "one day of 100", "id": "one id"}
    for files in scale.planned_files:
        table = tables[f"iceberg {files}"]
        for index, (kind, (ours, polars, pyiceberg)) in enumerate(iceberg.items()):
            yield Figure(
                figure=f"plan/iceberg/{files}/{kind}",
                group="Planning Iceberg",
                title=f"{files:,} files, {titles[kind]}",
                expected=table.answer[index : index + 1],
                contenders=(
                    _floor("manifests", "manifests inflated", files=table.files),
                    _harness("plan", location=table.location, where=ours),
                    _harness("plan_again", "harness, asked again", location=table.location, where=ours),
                    Contender(
                        name="Polars",
                        peer="polars",
                        task="plan",
                        arguments={"format": "iceberg", "location": table.metadata, "where": polars},
                    ),
                    _pyiceberg("plan", metadata=table.metadata, where=pyiceberg),
                ),
            )
    for files in scale.planned_files:
        table = tables[f"delta {files}"]
        for index, (kind, where) in enumerate(delta.items()):
            rust = {"location": table.location, "day": None if kind == "all" else first}
            peer = Contender(name="deltalake", peer="deltalake", task="plan", arguments=rust)
            yield Figure(
                figure=f"plan/delta/{files}/{kind}",
                group="Planning Delta",
                title=f"{files:,} files, {titles[kind]}",
                expected=table.answer[index : index + 1],
                contenders=(
                    _floor("checkpoint", "checkpoint as Arrow", files=table.files),
                    _harness("plan", location=table.location, where=where),
                    _harness("plan_again", "harness, asked again", location=table.location, where=where),
                    *(() if kind == "id" else (peer,)),
                ),
            )


def _comparing(tables: Mapping[str, Made]) -> Iterator[Figure]:
    left, right = tables["iceberg vectors"], tables["delta vectors"]
    for title, keys in (("rows counted", []), ("paired by id", ["id"])):
        yield Figure(
            figure=f"compare/{'keys' if keys else 'rows'}",
            group="Comparing two tables",
            title=f"an Iceberg table and a Delta table with deletes, equal: {title}",
            expected=[1],
            contenders=(
                _floor("twice", "plain DuckDB, two scans", files=left.files, select=ALL_COLUMNS),
                _harness("compare", left=left.location, right=right.location, keys=keys),
            ),
        )


def spark_figures(tables: Mapping[str, Made]) -> Iterator[Figure]:
    """The figures on Spark, each with the format's own jar beside harness."""
    select = SUMS.split(", ")
    for name, title in _SCANNED.items():
        table, format = tables[name], name.split()[0]
        peer = f"spark_{format}"
        at = table.metadata if format == "iceberg" else table.location
        yield Figure(
            figure=f"{ON_SPARK}{name.replace(' ', '-')}",
            group="Spark",
            title=title,
            expected=table.answer,
            contenders=(
                Contender(
                    name="plain Spark", peer=peer, task="plain", arguments={"files": table.files, "select": select}
                ),
                Contender(
                    name="harness", peer=peer, task="harness", arguments={"location": table.location, "select": select}
                ),
                Contender(name="the format's jar", peer=peer, task="jar", arguments={"location": at, "select": select}),
            ),
        )
