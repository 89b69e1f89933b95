"""Sizes of the tables of a run. Tables are made once, and kept until the code that makes them changes."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.writing.delta.builder import DeltaTable
from harness.writing.delta.files import DeltaFile
from harness.writing.iceberg.builder import IcebergTable
from harness.writing.iceberg.files import IcebergFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of a run.

    Attributes:
        name: The name of the scale. Only runs of the same scale are compared.
        rows: The rows of the tables that are scanned, over all `data_files`. The files differ in rows and row group
            sizes.
        shares: Shares of deleted rows, 0 to 1, for the cost by share; scattered over the file, and in clusters.
        changed_rows: The rows of the tables whose changes are read, over 100 data files.
        commits: The commits of tables with many commits.
        many_files: The number of data files with 100 rows each.
        planned_files: The numbers of data files of tables that are only planned.
        large_files: The number of files of another planned table, which is made on request, because that takes minutes.
        small_tables: The number of tables with a few rows, by format.
        rounds: The number of turns of each reader, after one that does not count. Fast figures have up to five times as
            many, while they take less than a fifth of `figure_s`.
        figure_s: The seconds after which a figure gets no further round, if it had two.
        turn_s: The seconds after which a turn has failed.
    """

    name: str
    rows: int
    data_files: int
    shares: tuple[float, ...]
    changed_rows: int
    commits: int
    many_files: int
    planned_files: tuple[int, ...]
    large_files: int
    small_tables: int
    rounds: int
    figure_s: float
    turn_s: float


FULL = Scale(
    name="full",
    rows=20_000_000,
    data_files=10,
    shares=(0.0001, 0.001, 0.01, 0.1),
    changed_rows=10_000_000,
    commits=1_000,
    many_files=10_000,
    planned_files=(1_000, 10_000, 100_000),
    large_files=1_000_000,
    small_tables=40,
    rounds=5,
    figure_s=15,
    turn_s=180,
)
SMALL = Scale(
    name="small",
    rows=200_000,
    data_files=4,
    shares=(0.01,),
    changed_rows=100_000,
    commits=120,
    many_files=200,
    planned_files=(1_000,),
    large_files=3_000,
    small_tables=8,
    rounds=2,
    figure_s=5,
    turn_s=180,
)
"""A scale to check that everything works. Its figures are meaningless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTable:
    """A table, before or after deletes.

    Attributes:
        location: The directory.
        metadata: The Iceberg metadata file.
        files: The files that the floor reads: data files, or metadata files.
        earlier_files: The data files at the beginning of a range of changes.
        start: The snapshot or version at the beginning of a range of changes.
        answer: The expected answer of every reader.
    """

    location: str
    metadata: str | None = None
    files: list[str] = field(default_factory=list)
    earlier_files: list[str] = field(default_factory=list)
    start: int = 0
    answer: list[int] = field(default_factory=list)


Maker = Callable[[Path, Scale], Mapping[str, BenchTable]]


def cached_table(maker: Maker, scale: Scale, root: Path) -> dict[str, BenchTable]:
    """Return a maker's tables by name.

    They are in a directory below `root` whose name depends on its source and the scale.
    """
    source = Path(maker.__code__.co_filename).read_bytes()
    sizes = replace(scale, rounds=0, figure_s=0, turn_s=0)  # the measurement itself does not matter
    key = hashlib.sha256(source + repr(sizes).encode()).hexdigest()[:12]
    folder = root / f"{maker.__name__}-{scale.name}-{key}"
    listing = folder / "made.json"
    if not listing.is_file():
        for older in root.glob(f"{maker.__name__}-{scale.name}-*"):
            shutil.rmtree(older)
        folder.mkdir(parents=True)
        tables = {name: asdict(table) for name, table in maker(folder, scale).items()}
        listing.write_text(json.dumps(tables), "utf-8")
    entries: dict[str, dict[str, Any]] = json.loads(listing.read_text("utf-8"))
    return {name: BenchTable(**table) for name, table in entries.items()}


def link_tables(table: IcebergTable, handle: IcebergFile) -> IcebergFile:
    """Add a hard link to a data file to another table, so that all tables read the same bytes."""
    recorded = f"{table.location}/data/{handle.file.name}"
    file = table.file_of(recorded)
    file.parent.mkdir(parents=True, exist_ok=True)
    os.link(handle.file, file)
    return replace(handle, file=file, data_file={**handle.data_file, "file_path": recorded})


def link_delta(table: DeltaTable, handle: IcebergFile, first: int) -> DeltaFile:
    """Add a hard link to a data file to a Delta table. Its rows have consecutive ids from `first` on."""
    file = table.directory / handle.file.name
    os.link(handle.file, file)
    rows = handle.record_count
    bounds = {"minValues": {"id": first}, "maxValues": {"id": first + rows - 1}, "nullCount": {"id": 0}}
    add = {
        "path": file.name,
        "partitionValues": {},
        "size": file.stat().st_size,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows, **bounds, "tightBounds": True}, separators=(",", ":")),
    }
    table.handles.append(DeltaFile(file, add, rows))
    return table.handles[-1]
