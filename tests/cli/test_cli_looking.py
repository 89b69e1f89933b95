"""First looks at a table: head, count, schema and history, as text and as JSON."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from harness.cli import main, results
from harness.errors import size_text
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A table of each format with rows 1 to 4, of which the first is deleted; the branch `old` still has it."""
    root = tmp_path_factory.mktemp("looking")
    columns = {"id": "long not null", "at": "struct<x: int>", "u": "uuid"}
    rows = [{"id": i, "at": {"x": i * 10}, "u": None} for i in (1, 2, 3, 4)]
    ice = IcebergTable.create(root / "ice", columns)
    data = ice.write_data(rows)
    ice.append(data)
    ice.create_branch("old")
    ice.commit(add=[ice.write_equality_deletes(["id"], [{"id": 1}])])
    dlt = DeltaTable.create(root / "dlt", {name: type_ for name, type_ in columns.items() if name != "u"})
    dlt.append(file := dlt.write_data([{key: row[key] for key in ("id", "at")} for row in rows]))
    dlt.delete(file, [0], info={"engineInfo": "x/1\x1b"})
    return {"ice": ice.location, "dlt": str(dlt.directory)}


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("head dlt 2", '    id  at\nbigint  struct\n------  --------\n     2  {"x":20}\n     3  {"x":30}\n'),
        ("head ice 1 --columns id,_pos --at old", "    id    _pos\nbigint  bigint\n------  ------\n     1       0\n"),
        ("head ice --where id>3 --columns id --format csv", "id\n4\n"),
        ("head ice 0 --columns id", "    id\nbigint\n------\n"),
        ("count ice", "3\n"),
        ("count ice --at old", "4\n"),
        ("count dlt --where id<3 --at 1", "2\n"),
        ("schema ice", "id   long    required\nat   struct  nullable\n  x  int     nullable\nu    uuid    nullable\n"),
    ],
)
def test_text(words: str, printed: str, places: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    command, name, *more = words.split()
    assert main([command, places[name], *more]) == 0
    assert capfd.readouterr() == (printed, "")


def test_info_is_short_first(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ice = IcebergTable.create(
        tmp_path / "ice", {"id": "long", "at": "string"}, partition_spec=[("id", "bucket[4]"), ("at", "identity")]
    )
    data = ice.write_data([{"id": 1, "at": "x"}] * 4)
    ice.append(data)
    deletes = ice.write_position_deletes([(data, 0)])
    keys = ice.write_equality_deletes(["id", "at"], [{"id": 1, "at": "x"}])
    ice.commit(add=[deletes, keys], summary={"engine-name": "x"})
    dlt = DeltaTable.create(tmp_path / "dlt", {"id": "long", "p": "string"}, partition_columns=["p"])
    dlt.append(file := dlt.write_data([{"id": 1, "p": "a"}] * 1000, partition={"p": "a"}))
    dlt.delete(file, [0])
    sizes = [data.file.stat().st_size, file.file.stat().st_size]
    expected = {
        ice.location: [
            *("format: iceberg", f"location: {ice.location}", f"snapshot: {ice.snapshot_id}", "rows: 4 before deletes"),
            *("files: 1", f"bytes: {size_text(sizes[0])}"),
            "deletes: 1 of positions in 1 of the files, 1 of keys in 1 of the files",
            *("columns: 2", "partitioning: bucket[4](id), at", "last commit: 2023-11-14T22:13:22.000Z, delete by x"),
            "branches and tags: main",
            "layout: 1 partition, 4 rows, 1 row deleted",
            f"  id_bucket=0, at='x'  {'█' * 13}{'▒' * 4}  4 rows  25 % deleted, equality deletes",
            "  █ read  ▒ deleted",
        ],
        str(dlt.directory): [
            *("format: delta", f"location: {dlt.directory}", "version: 2", "rows: 999", "files: 1"),
            f"bytes: {size_text(sizes[1])}",
            *("deletes: 1 of positions in 1 of the files", "columns: 2", "partitioning: p"),
            "last commit: 2023-11-14T22:13:22.000Z, DELETE by harness",
            "layout: 1 partition, 1,000 rows, 1 row deleted",
            f"  p='a'  {'█' * 43}▒  1,000 rows  < 1 % deleted",
            "  █ read  ▒ deleted",
        ],
    }
    for location, lines in expected.items():
        assert main(["info", location]) == 0
        assert capfd.readouterr().out.splitlines() == lines
        assert main(["info", location, "--full"]) == 0
        assert "properties:" in capfd.readouterr().out


def test_info_of_a_table_whose_manifests_are_gone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ice = IcebergTable.create(tmp_path / "t", {"id": "long"})
    assert main(["info", ice.location]) == 0
    assert "snapshot: none\nrows: 0\nfiles: 0\n" in capfd.readouterr().out
    ice.append(ice.write_data([{"id": 1}]))
    for manifest in Path(ice.location).glob("metadata/*.avro"):
        manifest.unlink()
    assert main(["info", ice.location]) == 0
    out, err = capfd.readouterr()
    assert re.search(r"^rows: unknown: Cannot .*\nfiles: unknown\nbytes: unknown\ndeletes: unknown$", out, re.MULTILINE)
    assert err == ""


def test_bars_have_colours_and_characters_that_the_terminal_has(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "is_terminal_output", lambda: True)
    monkeypatch.setattr(results.ByteStream, "isatty", lambda self: True)
    monkeypatch.setattr(results, "style_of", lambda stream: lambda text, name: f"<{name} {text}>")
    command = ["plan", places["dlt"], "--where", "id > 0"]
    assert main(command) == 0
    out = capfd.readouterr().out
    assert re.search(r"  part-\S+  █+<red ▒+>  4 rows  25 % deleted\n  █ read  <red ▒> deleted\n", out), out
    monkeypatch.setattr(results, "is_ascii", lambda output: True)
    assert main(command) == 0
    assert re.search(r"  part-\S+  #+x+  4 rows  25 % deleted\n  # read  x deleted\n", capfd.readouterr().out)


@pytest.mark.parametrize(("encoding", "expected"), [("latin-1", True), ("utf-8", False), ("UTF-8", False)])
def test_a_terminal_without_utf_8_gets_ascii(encoding: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "is_terminal_output", lambda: True)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert results.is_ascii(None) is expected
    assert not results.is_ascii(Path("plan.txt"))
