"""Tables that a catalog manages, read with the catalog's answer or up to the published version (frontier F4)."""

from pathlib import Path

import pytest

import harness
from harness import errors
from harness.cli import main
from harness.metadata.plan.read_options import catalog_answer
from harness.writing.delta.builder import DeltaTable

UUID = "7d17ac10-5cc3-401b-bd1a-9c82dd2ea032"
OTHER = "b91807ba-fe18-488c-a15e-c4807dbd2174"
"""The time of version 0. Each version follows a second after the previous one."""


def v(version: int, uuid: str = UUID) -> str:
    return f"{version:020}.{uuid}.json"


def managed(place: Path, *, feature: str = "catalogManaged", **configuration: str) -> DeltaTable:
    """A managed table up to version 4. Version n adds the id n."""
    table = DeltaTable.create(
        place / "t",
        {"id": "long"},
        features=[feature, "v2Checkpoint", "deletionVectors"],
        configuration={"delta.enableInCommitTimestamps": "true", **configuration},
    )
    for number in range(1, 5):
        table.append(table.write_data([{"id": number}]))
    return table


def file(table: DeltaTable, name: str) -> Path:
    return table.log.directory / name


@pytest.mark.parametrize(
    ("max_version", "ratified", "words"),
    [
        (-1, None, "expected a version, 0 or more"),
        (True, None, "expected a version, 0 or more"),
        ("3", None, "expected a version, 0 or more"),
        (None, [v(3)], "it requires max_version"),
        (3, v(3), "expected a list of names"),
        (2, [v(3)], "it lists version 3, above max_version=2; ask the catalog again"),
        (3, [v(3), v(3, OTHER)], "it lists version 3 twice"),
        (3, [v(3), (3, b"{}")], "it lists version 3 twice"),
        (4, [(4, v(3))], "for version 4, expected a staged commit of that version"),
        (4, [(-1, b"")], r"expected a name such as .*, or \(version, content\)"),
        (4, [3], r"expected a name such as .*, or \(version, content\)"),
        (3, [f"{3:020}.json"], "expected the name of a staged commit"),
        (3, [f"{3:019}.{UUID}.json"], "expected the name of a staged commit"),
        (3, [f"{v(3)}\n"], "expected the name of a staged commit"),
        (3, [f"../../other/_delta_log/_staged_commits/{v(3)}"], "expected the name of a staged commit"),
        (3, [f"_staged_commits/{v(3)}"], "expected the name of a staged commit"),
        (3, [f"s3://bucket/{v(3)}"], "expected the name of a staged commit"),
        (3, [f"..\\{v(3)}"], "expected the name of a staged commit"),
    ],
)
def test_an_invalid_answer_is_refused(max_version, ratified, words):
    with pytest.raises(errors.RequestError, match=words) as error:
        catalog_answer(max_version, ratified)
    assert (error.value.cause, error.value.rule) == ("CatalogAnswer", "frontier F4.4")


def test_without_a_catalog_the_table_is_refused_with_advice(tmp_path):
    table = managed(tmp_path)
    with pytest.raises(errors.UnsupportedError) as error:
        harness.open_table(str(table.directory))
    assert str(error.value) == (
        "Cannot read a catalog-managed table (feature 'catalogManaged') without its catalog, which alone knows the "
        "newest commits. Open the table by its name in the catalog, or pass the catalog's answer as max_version "
        "and ratified; published_only reads the published versions, which may be older "
        f"[CatalogManaged; table {table.directory}, rule frontier F4.3]"
    )


def test_a_torn_published_commit_is_not_skipped(tmp_path):
    table = managed(tmp_path)
    file(table, f"{3:020}.json").write_text("")
    with pytest.raises(errors.CorruptFileError, match="commit 3 is an empty file"):
        harness.open_table(str(table.directory), published_only=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_version": 1, "published_only": True}, "Cannot use max_version and published_only together"),
        ({"format_hint": "iceberg", "max_version": 0}, "Invalid option max_version: the table is iceberg"),
        ({"format_hint": "iceberg", "published_only": True}, "Invalid option published_only: the table is iceberg"),
    ],
)
def test_incompatible_options(tmp_path, options, words):
    with pytest.raises(errors.RequestError, match=words):
        harness.open_table(str(tmp_path), **options)


@pytest.mark.filterwarnings("default")
def test_the_answer_on_the_command_line(tmp_path, capfd):
    table = managed(tmp_path)
    name, content = table.log.stage(3), table.log.remove_commit_file(4)
    held = tmp_path / "four.json"
    held.write_bytes(content)
    command = ["sql", "SELECT max(id) AS n FROM t", "--table", f"t={table.directory}", "--format", "csv"]
    answer = ["--set", "max_version=4", "--set", f"ratified={name}", "--set", f"ratified=4={held}"]
    assert (main([*command, *answer]), capfd.readouterr()) == (0, ("n\n4\n", ""))
    assert main([*command, "--set", "published_only=true"]) == 0
    out, err = capfd.readouterr()
    assert (out, "up to version 2" in err) == ("n\n2\n", True)
    assert main(command) == 2
    assert (
        "pass the catalog's answer as --set max_version and --set ratified; --set published_only=true reads"
        in capfd.readouterr().err
    )
    assert main([*command, "--set", "max_version=4", "--set", f"ratified=4={tmp_path}/none"]) == 2
    assert "No such file" in capfd.readouterr().err


def test_every_error_is_a_harness_error(tmp_path):
    table = managed(tmp_path)
    for answer in ([v(9)], [(4, b"\xff")], [(4, b"[]\n")]):
        with pytest.raises(errors.HarnessError):
            harness.open_table(str(table.directory), max_version=4, ratified=answer)
