"""Checks of paths before they are opened: FIFOs, directories, and NULs, in storage and under each engine."""

import contextlib
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from leaving_tables import KINDS, iceberg

import harness
from harness.errors import HarnessError, MissingFileError, OutsideTableError
from harness.storage import gate
from harness.storage.gate import Containment, Outside, Roots
from harness.storage.paths import PhysicalPath
from harness.storage.stores import Storage
from harness.suite import oracle_engine as oracle
from harness.untrusted.bounds import readable_directories
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

FAULTS = {
    "none": "does not exist",
    "directory": "is a directory",
    "pipe": "not a regular file",
    "file/below": "a part of its path is a file",
    "circle": "circular links",
    "x" * 300: "too long",
    "nul\0file": "its path contains a NUL",
    "half\ud800": "half a character",
    "a/" * 1_000_000: "characters, more than a file system allows",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("abc")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize(("name", "words"), FAULTS.items(), ids=lambda text: ascii(text)[:20])
def test_what_is_no_regular_file_is_never_opened(place: Path, name: str, words: str) -> None:
    path = f"{place}/{name}"
    assert words in (gate.fault(path) or "")
    assert not Storage().exists(path)
    with pytest.raises(MissingFileError, match=words) as caught:
        Storage().read(path)
    assert path.startswith(str(caught.value.file).removesuffix("…"))


ASKED: dict[str, Callable[[str, str], Any]] = {
    "location": lambda path, _: harness.open_table(path),
    "allowed_roots": lambda path, location: harness.open_table(location, allowed_roots=[path]),
    "path_map": lambda path, location: harness.open_table(location, path_map={"/old": path}),
    "untrusted": lambda path, _: readable_directories([path]),
}


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("tail", ["nul\0file", "half\ud800", "a/" * 2_000_000], ids=["nul", "half", "long"])
def test_a_location_that_no_file_can_have(place: Path, ask: str, tail: str) -> None:
    IcebergTable.create(place / "t", {"id": "long"})
    path, location = f"{place}/{tail}", str(place / "t")
    with pytest.raises(HarnessError, match=r"its path contains|more than a file system allows") as caught:
        ASKED[ask](path, location)
    assert len(str(caught.value)) < 5_000


@pytest.mark.parametrize("tail", ["nul\0file", "a/" * 2_000_000], ids=["nul", "long"])
@pytest.mark.parametrize("key", ["location", "manifest-list", "write.metadata.path", "write.data.path"])
def test_paths_of_metadata_that_no_file_can_have(place: Path, key: str, tail: str) -> None:
    table = IcebergTable.create(place / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))

    def change(document: dict[str, Any]) -> None:
        match key:
            case "manifest-list":
                document["snapshots"][-1][key] = f"{place}/{tail}"
            case "location":
                document[key] = f"{place}/{tail}"
            case _:
                document["properties"] = {key: f"{place}/{tail}"}

    table.edit_metadata(change)
    with contextlib.suppress(HarnessError):
        assert harness.open_table(str(place / "t")).snapshot().to_arrow().num_rows == 1


def test_a_remote_name_with_a_nul_is_never_requested() -> None:
    path, storage = "memory://gate/a\0b", Storage()
    fsspec.filesystem("memory").pipe_file("/gate/a\0b", b"content")
    assert not storage.exists(path)
    assert not storage.is_directory(path)
    assert storage.names(path) == storage.entries(path) == ()
    for ask in (storage.read, storage.size, storage.status):
        with pytest.raises(MissingFileError, match="NUL"):
            ask(path)


def test_status_of_a_remote_file() -> None:
    files = fsspec.filesystem("memory")
    files.pipe_file("/gate/d/f", b"abc")
    assert Storage().status("memory://gate/d/f").size == 3
    with pytest.raises(MissingFileError, match="is a directory"):
        Storage().status("memory://gate/d")
    with pytest.raises(MissingFileError, match="does not exist"):
        Storage().status("memory://gate/none")


@pytest.fixture(params=["local", "memory"])
def place_of_table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Return the directories for writing and for reading a table."""
    if request.param == "local":
        yield tmp_path / "t", str(tmp_path / "t")
        return
    yield tmp_path / "t", "memory://gate/t"
    fsspec.filesystem("memory").rm("/gate", recursive=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_nul_in_a_recorded_path_is_an_error(kind: str, place_of_table: tuple[Path, str]) -> None:
    folder, location = place_of_table
    with_nul(folder, kind)
    if location.startswith("memory:"):
        fsspec.filesystem("memory").put(str(folder), "/gate/t", recursive=True)
    for read in (harness.Snapshot.to_arrow, lambda snapshot: oracle.to_arrow(snapshot.plan())):
        with pytest.raises(MissingFileError, match="NUL") as caught:
            read(harness.open_table(location).snapshot())
        assert "\0tail" in str(caught.value.file)


def with_nul(folder: Path, kind: str) -> None:
    """An Iceberg table with a path that contains a NUL. A file exists at the part before the NUL."""
    iceberg(folder.parent, kind, lambda file: f"{file}\0tail")


@pytest.mark.parametrize("tail", ["\0tail", "%00tail"], ids=["raw", "escaped"])
@pytest.mark.parametrize("prefix", ["", "file://{root}/"], ids=["relative", "absolute"])
def test_a_nul_in_the_log_is_an_error(tmp_path: Path, tail: str, prefix: str) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    file = table.write_data([{"id": 1}])
    file.add["path"] = prefix.format(root=tmp_path / "t") + file.add["path"] + tail
    table.append(file)
    for read in (harness.Snapshot.to_arrow, lambda snapshot: oracle.to_arrow(snapshot.plan())):
        with pytest.raises(harness.HarnessError, match="NUL"):
            read(harness.open_table(str(tmp_path / "t")).snapshot())


THINGS = ("pipe", "socket", "directory", "device", "link to nowhere")
LOG = "t/_delta_log/"
LEFT_OUT = {("checkpoint", "link to nowhere"), ("hint", "link to nowhere"), ("checksum", "link to nowhere")}
"""A file that may be absent, and is."""
DELTA_FILES = {
    "the newest commit": f"{LOG}00000000000000000003.json",
    "a commit before it": f"{LOG}00000000000000000002.json",
    "checkpoint": f"{LOG}00000000000000000001.checkpoint.parquet",
    "hint": f"{LOG}_last_checkpoint",
    "checksum": f"{LOG}00000000000000000003.crc",
    "data": "t/*.parquet",
}
ICEBERG_FILES = {
    "the newest metadata": "t/metadata/v3.metadata.json",
    "the newest metadata, found by its name": "t/metadata/v3.metadata.json",
    "the newest metadata, in gzip": "t/metadata/v3.gz.metadata.json",
    "hint": "t/metadata/version-hint.text",
    "manifest list": "t/metadata/snap-*.avro",
    "manifest": "t/metadata/[!s]*.avro",
    "data": "t/data/*.parquet",
}


def put(thing: str, path: Path) -> None:
    path.unlink(missing_ok=True)
    match thing:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            here = os.open(".", os.O_RDONLY)
            os.chdir(path.parent)  # a socket's path may have 108 bytes
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)
            os.fchdir(here)
            os.close(here)
        case "directory":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.symlink_to("gone")


def read_by_both(location: Path) -> Iterator[Any]:
    """Read with harness and with the oracle, and return both outcomes."""
    for read in (
        lambda: harness.open_table(str(location)).snapshot().to_arrow(),
        lambda: oracle.read_with_oracle(str(location)),
    ):
        try:
            # a device is outside the table
            with warnings.catch_warnings(action="ignore", category=harness.HarnessWarning):
                yield sorted(read()["id"].to_pylist())
        except HarnessError as error:
            yield error


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("what", DELTA_FILES)
def test_what_is_no_file_of_a_log_is_not_passed_over(what: str, thing: str, tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    for number in range(1, 4):
        table.append(table.write_data([{"id": number}]))
        if number == 1 and what in ("checkpoint", "hint"):
            table.checkpoint()
    if what == "checksum":
        table.write_checksum()
    (path, *_) = sorted(tmp_path.glob(DELTA_FILES[what])) or [tmp_path / DELTA_FILES[what]]
    put(thing, path)
    ours, oracles = read_by_both(tmp_path / "t")
    if (what, thing) in LEFT_OUT:
        assert ours == oracles == [1, 2, 3]
    else:
        assert isinstance(ours, MissingFileError)
        assert path.name in str(ours.file)
    assert isinstance(oracles, HarnessError) or oracles == [1, 2, 3]  # the oracle reads no hint and no checksum


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("what", ICEBERG_FILES)
def test_what_is_no_file_of_iceberg_metadata_is_not_passed_over(what: str, thing: str, tmp_path: Path) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    (path, *_) = sorted(tmp_path.glob(ICEBERG_FILES[what])) or [tmp_path / ICEBERG_FILES[what]]
    if "name" in what:
        (tmp_path / "t/metadata/version-hint.text").unlink()
    put(thing, path)
    for found in read_by_both(tmp_path / "t"):
        assert isinstance(found, MissingFileError)
        assert path.name in str(found.file)


@pytest.mark.parametrize("kind", ["data", "avro", "equality deletes"])
def test_a_nul_in_a_recorded_path_is_an_error_on_spark(kind: str, tmp_path: Path, spark: Any) -> None:
    from harness.engines.spark.engine import to_arrow

    with_nul(tmp_path / "t", kind)
    with pytest.raises(MissingFileError, match="NUL"):
        to_arrow(harness.open_table(str(tmp_path / "t")).snapshot().plan(), spark)


@pytest.mark.parametrize("depth", range(1, 6))
def test_a_link_at_any_depth_leads_out_of_the_table(tmp_path: Path, depth: int) -> None:
    names = ["data", "year=1", "month=2", "day=3", "hour=4"]
    plain, linked = (Path(tmp_path, "t", *names[: depth - 1], name) for name in ("plain", names[depth - 1]))
    Path(plain, *names[depth:]).mkdir(parents=True)
    Path(tmp_path, "elsewhere", *names[depth:]).mkdir(parents=True)
    linked.symlink_to(tmp_path / "elsewhere")
    roots = Roots.for_table(str(tmp_path / "t"))
    for _ in range(2):  # the result for a neighboring directory is cached by then
        assert roots.containment(str(Path(linked, *names[depth:]))) is Containment.OUTSIDE
        assert roots.containment(str(Path(plain, *names[depth:]))) is Containment.INSIDE


@pytest.mark.parametrize(
    ("path", "may_be_read"),
    [
        ("https://h/lake/t/data/a%20b.parquet", True),
        ("https://h/lake/t/data/..%2F..%2F..%2Fother.parquet", False),
        ("https://h/lake/t/data%2F..%2F..%2Fother/a.parquet", False),
        ("s3://b/lake/t/p%2F..%2F..%2Fb.parquet", True),  # this is the object's name
    ],
)
def test_a_store_that_decodes_paths_gives_no_file_of_another_directory(path: str, may_be_read: bool) -> None:
    roots = Roots.for_table(path[: path.index("/lake/t") + len("/lake/t")], outside=Outside.REFUSE)
    refused = contextlib.nullcontext() if may_be_read else pytest.raises(OutsideTableError)
    with refused:
        roots.check(PhysicalPath(path))
