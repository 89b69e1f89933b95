"""Read tables of a `LakeCatalog` with several clients of Iceberg REST catalogs, and write docs/suite/server-plans.md.

`python server_plans.py` prints the table. `--write` puts it into the page. Each client runs in its own interpreter, as
in `harness scenarios run`: HARNESS_READERS names the environments. Only installed clients are run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import RequestError
from harness.suite.readers import READERS, interpreter_of, program_of
from harness.testing.lake_catalog import LakeCatalog
from harness.testing.plan_faults import PlanFault
from harness.writing.iceberg.builder import IcebergTable

CLIENTS = ("harness", "iceberg-java", "pyiceberg", "duckdb-iceberg")
_HERE = Path(__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "suite" / "server-plans.md"
START, END = "<!-- run: written by `nox -s readers -- plans` -->\n", "<!-- end of run -->\n"
_LIMIT_S = 120
_SHOWN = 200
"""The maximum number of characters of an error on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A read of a table with a plan of the server.

    Attributes:
        name: The name in the table.
        build: Writes the table in a directory, and returns it, the read, and the expected ids.
        server: Arguments of `LakeCatalog`.
    """

    name: str
    build: Callable[[Path], tuple[IcebergTable, Mapping[str, Any], Sequence[int]]]
    server: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a read: its mark in the table, and the error or the rows for the notes below the table."""

    mark: str
    note: str | None = None


_Built = tuple[IcebergTable, Mapping[str, Any], Sequence[int]]


_GREATER = {"type": "gt", "term": "id", "value": 3}
_AND = {
    "type": "and",
    "left": {"type": "eq", "term": "region", "value": "eu"},
    "right": {"type": "gt", "term": "id", "value": 1},
}
"""The filters of two cases in Iceberg's JSON, for the client in Java."""


def _rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": id_, "region": "eu" if id_ % 2 else "us"} for id_ in ids]


def _table(directory: Path, version: int = 2, *, by_region: bool = False) -> IcebergTable:
    spec = (("region", "identity"),) if by_region else ()
    return IcebergTable.create(
        directory, {"id": "long", "region": "string"}, format_version=version, partition_spec=spec
    )


def _plain(directory: Path) -> _Built:
    table = _table(directory)
    for ids in ((1, 2), (3, 4), (5, 6)):
        table.append(table.write_data(_rows(*ids)))
    return table, {}, [1, 2, 3, 4, 5, 6]


def _reading(read: Callable[[IcebergTable], Mapping[str, Any]], *expected: int) -> Callable[[Path], _Built]:
    def build(directory: Path) -> _Built:
        table, _, _ = _plain(directory)
        table.create_branch("audit", table.snapshots[0]["snapshot-id"])
        return table, read(table), expected

    return build


def _filtered_partitions(directory: Path) -> _Built:
    table = _table(directory, by_region=True)
    table.append(*table.write_partitioned(_rows(1, 2, 3, 4)))
    return table, {"where": "region = 'eu' AND id > 1", "filter": _AND}, [3]


def _position_deletes(directory: Path) -> _Built:
    table = _table(directory)
    files = [table.write_data(_rows(*ids)) for ids in ((1, 2, 3), (4, 5), (6,))]
    table.append(*files)
    table.commit(add=[table.write_position_deletes([(files[0], 0), (files[1], 1)])])
    return table, {}, [2, 3, 4, 6]


def _deletes_of_each_file(directory: Path) -> _Built:
    table = _table(directory)
    files = [table.write_data(_rows(*ids)) for ids in ((1, 2, 3), (4, 5, 6))]
    table.append(*files)
    table.commit(add=[table.write_position_deletes([(file, 0)], referenced=file) for file in files])
    return table, {}, [2, 3, 5, 6]


def _vectors(directory: Path) -> _Built:
    table = _table(directory, version=3)
    files = [table.write_data(_rows(*ids)) for ids in ((1, 2, 3), (4, 5, 6), (7, 8, 9))]
    table.append(*files)
    table.commit(add=table.write_deletion_vectors({files[0]: [0], files[1]: [1], files[2]: [2]}))
    return table, {}, [2, 3, 4, 6, 7, 8]


def _equality_deletes(directory: Path) -> _Built:
    table = _table(directory)
    table.append(table.write_data(_rows(1, 2, 3)))
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 2}])])
    table.append(table.write_data(_rows(2, 4)))
    return table, {}, [1, 2, 3, 4]


def _by_fault(fault: PlanFault, build: Callable[[Path], _Built], name: str, **server: Any) -> Case:
    return Case(name=name, build=build, server={"faults": [fault], **server})


CASES = (
    Case(name="complete plan", build=_plain),
    Case(name="plan that is polled", build=_plain, server={"polls": 2}),
    Case(name="plan tasks in plan tasks", build=_plain, server={"page": 1}),
    Case(name="metadata files that the client cannot read", build=_plain, server={"hides_metadata": True}),
    Case(name="mode of the catalog is `client`", build=_plain, server={"mode": "client"}),
    Case(name="filter", build=_reading(lambda _: {"where": "id > 3", "filter": _GREATER}, 4, 5, 6)),
    Case(name="filter that partitions decide in part", build=_filtered_partitions),
    Case(name="projection", build=_reading(lambda _: {"columns": ["id"]}, 1, 2, 3, 4, 5, 6)),
    Case(name="snapshot", build=_reading(lambda t: {"snapshot_id": t.snapshots[1]["snapshot-id"]}, 1, 2, 3, 4)),
    Case(name="branch", build=_reading(lambda _: {"branch": "audit"}, 1, 2)),
    Case(name="appended rows", build=_reading(lambda t: {"after": t.snapshots[0]["snapshot-id"]}, 3, 4, 5, 6)),
    Case(name="position deletes", build=_position_deletes),
    Case(name="position deletes, in pages of one file", build=_position_deletes, server={"page": 1}),
    Case(name="vectors in one Puffin file", build=_vectors),
    Case(name="equality deletes", build=_equality_deletes),
    _by_fault(PlanFault.DROPPED_RESIDUALS, _filtered_partitions, "delta#6052: residuals are dropped"),
    _by_fault(PlanFault.IGNORED_DELETES, _position_deletes, "delta#7562: no file refers to its deletes"),
    _by_fault(PlanFault.LAST_VECTOR, _vectors, "iceberg#17497: each file has the last vector"),
    _by_fault(PlanFault.DELETES_OF_FIRST_PAGE, _position_deletes, "gravitino#12241: later pages lack deletes", page=1),
    _by_fault(
        PlanFault.DELETES_OF_FIRST_PAGE,
        _deletes_of_each_file,
        "gravitino#12241, and each page has its own deletes",
        page=1,
    ),
)


def installed() -> dict[str, tuple[str, ...]]:
    """Return the commands of the installed clients by name."""
    commands: dict[str, tuple[str, ...]] = {}
    for name in CLIENTS:
        try:
            commands[name] = _command(name)
        except RequestError as missing:
            print(missing.message, file=sys.stderr)
    return commands


def _command(client: str) -> tuple[str, ...]:
    if client == "iceberg-java":
        jars = Path(program_of(client)).parents[1] / "java"
        return ("java", "-cp", f"{jars}/*", str(_HERE / "PlanClient.java"))
    python = sys.executable if client == "harness" else interpreter_of(READERS[client], {})
    return (python, str(_HERE / "plan_clients.py"), client)


def run(case: Case, command: Sequence[str]) -> Outcome:
    """Read a table with the command of a client, and return the outcome."""
    with tempfile.TemporaryDirectory() as folder, LakeCatalog(**case.server) as server:
        table, read, expected = case.build(Path(folder) / "orders")
        server.add("sales.orders", table)
        request = json.dumps({"uri": server.uri, "table": "sales.orders", **read})
        process = subprocess.run(command, input=request, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
        is_planned_by_server = any(line == "POST /plan" for line in server.requests)
        if process.returncode:
            last = _error(process.stderr).replace(folder, "").replace(server.uri, "URI")
            return Outcome("!", last if len(last) <= _SHOWN else f"{last[:_SHOWN]}…")
        ids = json.loads(process.stdout.splitlines()[-1])
    if ids is None:
        return Outcome("–")
    if Counter(ids) != Counter(expected):
        return Outcome("✗", f"returned {sorted(ids)}, expected {list(expected)}")
    return Outcome("✓" if is_planned_by_server else "○")


def _error(output: str) -> str:
    """Return the line of an output that describes the error: the last cause in Java, otherwise the last line."""
    lines = output.strip().splitlines()
    causes = [line for line in lines if line.startswith(("Exception in thread", "Caused by: "))]
    return causes[-1] if causes else lines[-1]


def results(commands: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Outcome]]:
    """Return the outcomes by case and client."""
    return {case.name: {client: run(case, command) for client, command in commands.items()} for case in CASES}


def lines(outcomes: Mapping[str, Mapping[str, Outcome]], versions: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the table and of the notes below it."""
    clients = list(versions)
    yield f"| case | {' | '.join(f'{client} {versions[client]}'.strip() for client in clients)} |"
    yield f"| --- | {' | '.join([':---:'] * len(clients))} |"
    for case, by_client in outcomes.items():
        yield f"| {case} | {' | '.join(by_client[client].mark for client in clients)} |"
    yield ""
    for case, by_client in outcomes.items():
        for client in clients:
            if note := by_client[client].note:
                yield f"- {case}, {client}: `{note}`"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    write = parser.parse_args().write
    commands = installed()
    versions = {client: version(client, command) for client, command in commands.items()}
    text = "".join(f"{line}\n" for line in lines(results(commands), versions))
    print(text)
    if write:
        before, _, rest = PAGE.read_text("utf-8").partition(START)
        PAGE.write_text(f"{before}{START}{text}{END}{rest.partition(END)[2]}", "utf-8")


def version(client: str, command: Sequence[str]) -> str:
    """Return the version of a client's package, or an empty text for harness, because the page is part of harness."""
    if client == "harness":
        return ""
    arguments = [*command, "version"]
    if client != "iceberg-java":
        package = "duckdb-extension-iceberg" if client == "duckdb-iceberg" else client
        arguments = [command[0], "-c", f"import importlib.metadata as m; print(m.version({package!r}))"]
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
