"""Compare the costs of a server's plan and of harness's own plan, for tables of 10, 1,000, and 100,000 files.

    python programs/benchmarks/bench_server_plans.py

The server is a `LakeCatalog` in another process, which sends 10,000 files in each answer. The server's time is printed
separately, because its planner is harness's own planner. Requests to the catalog and metadata files are counted. The
two plans are made in turns, each with a newly opened table, and the median of the rounds is printed. The processor time
of this process is the cost for the client: transport, parsing, and building the plan.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench_planned import DAY, date_of, iceberg

import harness
from harness.metadata.catalogs.unity_rest import Server
from harness.testing.json_server import HttpAnswer
from harness.testing.lake_catalog import LakeCatalog
from harness.testing.lake_catalog_client import RestCatalog

FILES = (10, 1_000, 100_000)
_PAGE = 10_000
_ROUNDS = 5
_DAY = f"ts >= TIMESTAMP '{date_of(DAY)}' AND ts < TIMESTAMP '{date_of(DAY + 1)}'"
_READS = {"all": None, "one day of 100": _DAY}


class _Timed(LakeCatalog):
    """A server that measures the total seconds that it needs for its answers."""

    seconds = 0.0

    def answer(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
    ) -> HttpAnswer:
        start = time.perf_counter()
        try:
            return super().answer(method, path, query, headers, body)
        finally:
            self.seconds += time.perf_counter() - start


def _serve(location: str, pipe: Connection) -> None:
    """Serve a table until the pipe is closed. Answer each message with the costs since the last message."""
    with _Timed(page=_PAGE) as server:
        server.add("bench.files", location)
        pipe.send(server.uri)
        try:
            while pipe.recv():
                pipe.send((server.seconds, len(server.requests)))
                server.seconds = 0.0
                server.requests.clear()
        except EOFError:
            return


@dataclass(frozen=True, slots=True)
class _Cost:
    """The costs of one plan: elapsed, processor, and server time in seconds, and the numbers of requests and files."""

    clock_s: float
    processor_s: float
    server_s: float
    requests: int
    files: int


def _cost(catalog: RestCatalog, pipe: Connection, planning: str, where: str | None) -> _Cost:
    pipe.send(True)
    pipe.recv()
    clock, processor = time.perf_counter(), time.process_time()
    table = harness.open_table("bench.files", catalog=catalog, planning=planning)
    files = table.snapshot().plan(where=where).files.num_rows
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    pipe.send(True)
    server_s, requests = pipe.recv()
    return _Cost(clock, processor, server_s, requests, files)


def measure(folder: Path, files: int) -> None:
    """Print a line for each read of a table."""
    table = iceberg(folder / str(files), files, [])
    own, other = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(table.location, other))
    process.start()
    other.close()
    try:
        catalog = RestCatalog(server=Server(uri=own.recv(), name="bench", token=None))
        for title, where in _READS.items():
            costs: dict[str, list[_Cost]] = {"server": [], "client": []}
            for _ in range(_ROUNDS):
                for planning, so_far in costs.items():
                    so_far.append(_cost(catalog, own, planning, where))
            print(_line(files, title, costs, metadata_files=2 + len(table.files)))
    finally:
        own.close()
        process.join()


def _line(files: int, title: str, costs: Mapping[str, list[_Cost]], *, metadata_files: int) -> str:
    def median(planning: str, name: str) -> float:
        return 1000 * statistics.median(getattr(cost, name) for cost in costs[planning])

    server, client = costs["server"][0], costs["client"][0]
    assert server.files == client.files
    times = [
        *(median("server", name) for name in ("clock_s", "server_s", "processor_s")),
        *(median("client", name) for name in ("clock_s", "processor_s")),
    ]
    shown = [f"{each:,.1f}" if each < 10 else f"{each:,.0f}" for each in times]
    ratio = times[2] / times[4]
    cells = [f"{files:,}", title, f"{server.files:,}", str(server.requests), *shown[:3]]
    cells += [f"{client.requests} + {metadata_files}", *shown[3:], f"{ratio:.2f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    print(
        "| files | read | in the plan | server: requests | ms | of these in the server | client: processor ms "
        "| own plan: requests + files | ms | processor ms | processor: server / own |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for files in [int(word) for word in sys.argv[1:]] or FILES:
            measure(Path(folder), files)


if __name__ == "__main__":
    main()
