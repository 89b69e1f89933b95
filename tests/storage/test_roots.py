"""Locations that a table may be read from: directories, links, and stores, and the options of each store."""

import ntpath
import os
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest

from harness.errors import OutsideTableError, RequestError
from harness.storage import gate as roots_module
from harness.storage.gate import Containment, Outside, Roots
from harness.storage.paths import PathMap, canonical_path
from harness.storage.stores import Storage
from harness.table import open_storage


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name in ("t/data", "t-evil", "other"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "f").write_text(name)
    (tmp_path / "t" / "out").symlink_to(tmp_path / "other")
    (tmp_path / "t" / "in").symlink_to("data")
    (tmp_path / "t" / "file-out").symlink_to(tmp_path / "other" / "f")
    (tmp_path / "t" / "file-in").symlink_to("data/f")
    (tmp_path / "link-to-t").symlink_to("t")
    return tmp_path


@pytest.mark.parametrize("root", ["", "file:", "FILE:", "file:.", "./", "file:./."])
def test_a_root_without_a_path_is_the_process_directory_and_no_disk(lake, monkeypatch, root):
    monkeypatch.chdir(lake / "t")
    roots = Roots.for_table(root)
    found = [roots.containment(folder) for folder in (f"{lake}/t/data", f"{lake}/other", "/etc")]
    assert found == [Containment.INSIDE, Containment.OUTSIDE, Containment.OUTSIDE]


@pytest.mark.parametrize("root", ["other/f", "t/../other/f", "file:other/f"])
def test_a_root_may_be_a_file(lake: Path, monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    """For example, the target of a path map for a single file."""
    monkeypatch.chdir(lake)
    target = PathMap((("old", root),)).physical("old")
    storage = Storage(roots=Roots.for_table("t", (root,), outside=Outside.REFUSE))
    monkeypatch.chdir("/")
    assert storage.read(target) == b"other"
    with pytest.raises(OutsideTableError):
        storage.read(f"{lake}/other/g")


def test_every_way_to_ask_storage_is_refused(lake: Path) -> None:
    storage = Storage(roots=Roots.for_table(f"{lake}/t", outside=Outside.REFUSE))
    for ask in (storage.read, storage.exists, storage.is_directory, storage.size, storage.status, storage.fault):
        with pytest.raises(OutsideTableError):
            ask(f"{lake}/other/f")
    for ask in (storage.names, storage.entries):
        with pytest.raises(OutsideTableError):
            ask(f"{lake}/other/folder")
    for ask in (storage.read, storage.size, storage.status, storage.fault):
        with pytest.raises(OutsideTableError):
            ask(f"{lake}/t/file-out")
        ask(f"{lake}/t/file-in")


def test_a_file_replaced_by_a_link_after_its_check_is_not_opened(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(roots=Roots.for_table(f"{lake}/t", outside=Outside.REFUSE))
    monkeypatch.setattr(os.path, "realpath", lambda path, **_: str(path))  # as it was a moment before
    with pytest.raises(Exception, match="became a link while it was opened"):
        storage.read(f"{lake}/t/file-out")


def test_a_link_is_checked_when_it_is_opened(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(roots=Roots.for_table(f"{lake}/t", outside=Outside.REFUSE))
    monkeypatch.setattr(os.path, "islink", lambda path: False)  # as it was a moment before
    with pytest.raises(OutsideTableError):
        storage.read(f"{lake}/t/file-out")
    with pytest.raises(OutsideTableError):
        storage.end(f"{lake}/t/file-out", 8)


def test_a_link_in_the_place_of_a_metadata_file_widens_nothing(lake: Path) -> None:
    """The user named the table's directory, so a link inside it is not trusted."""
    metadata = lake / "t" / "metadata"
    metadata.mkdir()
    (lake / "elsewhere" / "metadata").mkdir(parents=True)
    (lake / "elsewhere" / "metadata" / "v1.metadata.json").write_text("{}")
    (metadata / "v1.metadata.json").symlink_to(lake / "elsewhere" / "metadata" / "v1.metadata.json")
    storage = Storage(roots=Roots.for_table(f"{lake}/t", outside=Outside.REFUSE))
    around = storage.including_table(f"{lake}/t", f"{metadata}/v1.metadata.json")
    with pytest.raises(OutsideTableError, match="outside='refuse'"):
        around.read(f"{metadata}/v1.metadata.json")


@pytest.mark.parametrize("location", [r"C:\lake\t\metadata\v1.metadata.json", r"C:\metadata\v1.metadata.json"])
def test_the_roots_of_a_table_on_windows_are_no_disk(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = location.rpartition("\\")[0].replace("\\", "/")
    folders = [inside, "C:/Users/me", "C:/lake/other", "C:/", "/etc"]
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        windows.setattr(os, "path", ntpath)
        windows.setattr(roots_module, "canonical_path", partial(canonical_path, windows=True))
        roots = (
            Storage(roots=Roots.for_table(location, outside=Outside.REFUSE)).including_table(location, location).roots
        )
        found = [] if roots is None else list(map(roots.containment, folders))
    assert found == [Containment.INSIDE] + [Containment.OUTSIDE] * 4


class Counter(fsspec.AbstractFileSystem):
    """A client that records the options it was created with."""

    protocol = "counter"
    cachable = False
    made: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, **options: Any) -> None:
        super().__init__()
        Counter.made.append(options)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return b"x"


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> type[Counter]:
    fsspec.register_implementation("counter", Counter, clobber=True)
    monkeypatch.setattr(Counter, "made", [])
    return Counter


def opened(location: str, *, targets: tuple[str, ...] = (), allowed: tuple[str, ...] = (), **options: Any) -> Storage:
    return open_storage(
        location, options=options, targets=targets, allowed_roots=allowed, outside="warn", untrusted=False
    )


@pytest.mark.parametrize(
    ("location", "targets", "read", "expected"),
    [
        pytest.param("counter://a/t", (), "counter://a/t/f", {"key": "k"}, id="the table's own"),
        pytest.param("counter://a/t", (), "counter://a/elsewhere/f", {"key": "k"}, id="elsewhere in it"),
        pytest.param("counter://a/t", (), "counter://b/t/f", {}, id="an allowed root in another bucket"),
        pytest.param("counter://a/t", ("counter://c/t",), "counter://c/t/f", {}, id="a target in another bucket"),
        pytest.param("/lake/t", ("counter://c/t",), "counter://c/t/f", {"key": "k"}, id="a target of a local table"),
        pytest.param("/lake/t", ("counter://c/t",), "counter://b/t/f", {}, id="an allowed root of a local table"),
        pytest.param("counter://a/t", (), "counter://own/f", {"key": "o"}, id="named"),
    ],
)
def test_options_are_sent_only_to_their_store(counter, location, targets, read, expected):
    named: dict[str, Any] = {"counter://own": {"key": "o"}}
    allowed = ("counter://b", "counter://own")
    storage = opened(location, targets=targets, allowed=allowed, key="k", **named)
    assert storage.read(read) == b"x"
    assert counter.made == [expected]


def test_a_store_that_may_not_be_read_is_not_even_opened(counter: type[Counter]) -> None:
    with pytest.raises(OutsideTableError):
        opened("counter://a/t", key="k").read("counter://b/t/f")
    assert counter.made == []


def test_options_of_a_store_are_a_mapping() -> None:
    with pytest.raises(RequestError, match="the value for s3://b is not a mapping"):
        opened("s3://a/t", **{"s3://b": "secret"})
