"""How large the tables of a run are; they are made once and kept until what makes them changes."""

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

    name: of the scale; only runs of one scale are compared.
    rows: of the tables that are scanned, over all `data_files`, which differ in rows and in the rows of a row group.
    shares: of rows deleted, 0 to 1, where the cost by share is measured; scattered over the file, and in clusters.
    many_files: data files of 100 rows each. planned_files: data files of tables that are only planned. large_files: of
    one more of these, where it is asked for: it takes minutes to make.
    small_tables: tables of some rows, by format. rounds: how often each reader has its turn, after one that does not
    count; up to five times as often while that takes less than a fifth of `figure_s`.
    figure_s: seconds after which a figure has no further round, if it had two.
    turn_s: seconds after which a turn has failed.
    """

    name: str
    rows: int
    data_files: int
    shares: tuple[float, ...]
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
    many_files=200,
    planned_files=(1_000,),
    large_files=3_000,
    small_tables=8,
    rounds=2,
    figure_s=5,
    turn_s=180,
)
"""To see that everything works: the figures of it mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTable:
    """A table, or what is left of it after deletes.

    location: its directory. metadata: Iceberg's metadata file. files: for the floor, what it reads plainly: data files,
    or files of metadata. answer: what readers must say of it.
    """

    location: str
    metadata: str | None = None
    files: list[str] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)


Maker = Callable[[Path, Scale], Mapping[str, BenchTable]]


def cached_table(maker: Maker, scale: Scale, root: Path) -> dict[str, BenchTable]:
    """The tables of a maker by name, in a directory under `root` whose name follows from its source and the scale."""
    source = Path(maker.__code__.co_filename).read_bytes()
    sizes = replace(scale, rounds=0, figure_s=0, turn_s=0)  # how it is measured does not matter
    key = hashlib.sha256(source + repr(sizes).encode()).hexdigest()[:12]
    folder = root / f"{maker.__name__}-{scale.name}-{key}"
    listing = folder / "made.json"
    if not listing.is_file():
        for older in root.glob(f"{maker.__name__}-{scale.name}-*"):
            shutil.rmtree(older)
        folder.mkdir(parents=True)
        tables = {name: asdict(table) for name, table in maker(folder, scale).items()}
        listing.write_text(json.dumps(tables), "utf-8")
    found: dict[str, dict[str, Any]] = json.loads(listing.read_text("utf-8"))
    return {name: BenchTable(**table) for name, table in found.items()}


def link_tables(table: IcebergTable, handle: IcebergFile) -> IcebergFile:
    """The same data file in another table, by a hard link: every table reads the same bytes."""
    recorded = f"{table.location}/data/{handle.file.name}"
    file = table.file_of(recorded)
    file.parent.mkdir(parents=True, exist_ok=True)
    os.link(handle.file, file)
    return replace(handle, file=file, data_file={**handle.data_file, "file_path": recorded})


def link_delta(table: DeltaTable, handle: IcebergFile, first: int) -> DeltaFile:
    """The same data file in a Delta table, by a hard link; its rows have the ids from `first` on, which go up by 1."""
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
