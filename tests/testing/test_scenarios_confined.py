"""A scenario file of a stranger: it writes only where it is built, and what is wrong with it is one line."""

from __future__ import annotations

import pytest

from harness.cli import main
from harness.errors import RequestError
from harness.testing.scenarios import loading
from harness.testing.scenarios.building import build
from harness.testing.scenarios.loading import from_mapping

SCHEMA = {"schema": {"id": "long", "p": "string"}}
ROWS = {"rows": [[1, "x"]]}


def scenario(format_: str, table: dict, *history: dict):
    whole = {"title": "t", "format": format_, "clauses": [], "table": SCHEMA | table, "history": list(history)}
    return from_mapping(whole | {"expect": []}, "s")


def append(**more):
    return {"append": [{"data": "a", **ROWS, **more}]}


@pytest.fixture
def place(tmp_path):
    """Where scenarios are built; beside it a file that is none of theirs, and inside a link that leads to it."""
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "outside").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "file-link").symlink_to(tmp_path / "secret")
    return tmp_path / "in"


WRITES = {
    "break-write-absolute": {"break": {"write": "{out}/x", "text": "x"}},
    "break-write-up": {"break": {"write": "../../outside/x", "text": "x"}},
    "break-write-through-a-link": {"break": {"write": "../link/x", "text": "x"}},
    "break-write-to-a-linked-file": {"break": {"write": "../file-link", "text": "x"}},
    "break-delete": {"break": {"delete": "../../secret"}},
    "break-truncate": {"break": {"truncate": "../../secret", "to": 0}},
    "break-corrupt-linked": {"break": {"corrupt": "../file-link", "at": 0}},
    "break-copy-from": {"break": {"copy": "../../secret", "to": "stolen"}},
    "break-copy-to": {"break": {"copy": "a", "to": "../../outside/x"}},
    **{"break-enclose": {"break": {"enclose": "../../secret"}}, "move-table-up": {"move-table": "../outside/x"}},
    **{"move-table-absolute": {"move-table": "{out}/x"}, "move-table-through-a-link": {"move-table": "link/x"}},
}


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
@pytest.mark.parametrize("step", WRITES.values(), ids=list(WRITES))
def test_no_step_reaches_outside(place, format_, step):
    ((name, value),) = step.items()
    filled = {k: _filled(v, place) for k, v in value.items()} if isinstance(value, dict) else _filled(value, place)
    refused(place, scenario(format_, {}, append(), {name: filled}))


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
@pytest.mark.parametrize("path", ["../../outside/x.parquet", "{out}/x.parquet", "../link/x.parquet"])
def test_no_data_file_is_written_outside(place, format_, path):
    refused(place, scenario(format_, {}, append(path=_filled(path, place))))


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
@pytest.mark.parametrize("folder", ["../outside/t", "{out}/t", "link/t"])
def test_no_table_is_made_outside(place, format_, folder):
    refused(place, scenario(format_, {"folder": _filled(folder, place)}))


@pytest.mark.parametrize("path", ["../../outside/x.puffin", "{out}/x.puffin"])
def test_no_puffin_file_is_written_outside(place, path):
    vectors = {"deletion-vectors": {"a": [0]}, "path": _filled(path, place)}
    refused(place, scenario("iceberg", {"format-version": 3}, append(), {"commit": {"add": [vectors]}}))


def test_no_deletion_vector_is_written_outside(place):
    delete = {"delete-rows": {"rows": {"a": [0]}, "prefix": ".."}}
    refused(place, scenario("delta", {"features": ["deletionVectors"], "folder": "."}, append(), delete))


@pytest.mark.parametrize("target", ["manifest list", "a"])
def test_no_recorded_path_leads_a_break_outside(place, target):
    secret = str(place.parent / "secret")
    edits = [{"edit-metadata": {"set": {"snapshots/0/manifest-list": secret}}}]
    written = {"append": [{"data": "a", **ROWS, "set": {"file_path": secret}}]} if target == "a" else append()
    refused(
        place,
        scenario("iceberg", {}, written, *(edits if target != "a" else []), {"break": {"truncate": target, "to": 0}}),
    )


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_no_option_of_the_writer_says_where(place, format_):
    refused(place, scenario(format_, {}, append(**{"writer-options": {"filesystem": "file:///"}})), match="filesystem")


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_what_is_inside_may_be_written(place, format_):
    steps = [append(path="../beside/a.parquet", **({"addressing": "/"} if format_ == "delta" else {}))]
    build(scenario(format_, {}, *steps, {"break": {"write": "../beside/x", "text": "x"}}, {"move-table": "m"}), place)
    assert (place / "beside" / "x").read_text() == "x"
    assert (place / "m").is_dir()


DIGITS = "9" * 5_000
BAD_YAML = {
    "digits": (f"title: {DIGITS}", "a number of 5,000 digits"),
    "hex-digits": (f"title: 0x{DIGITS}", "a number of 5,002 digits"),
    "lists": ("[" * 200_000, "too deep"),
    "mappings": ("{a: " * 200_000, "too deep"),
    "blocks": ("".join(" " * i + "-\n" for i in range(1_500)), "too deep"),
    "blocks-on-a-line": ("- " * 200_000, "too deep"),
    "keys": ("".join(" " * i + "a:\n" for i in range(1_500)), "too deep"),
    "keys-and-lists": ("".join(" " * i + "a:\n" + " " * i + "- \n" for i in range(1_500)), "Cannot read place"),
    "aliases": ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "aliases"),
    "tag": ("a: !!python/object/apply:os.system [id]", "python/object/apply"),
    "control": ("a: \x1b[31m", "Cannot read place"),
}


@pytest.mark.parametrize(("text", "said"), BAD_YAML.values(), ids=list(BAD_YAML))
def test_bad_yaml_is_one_line(tmp_path, capfd, text, said):
    with pytest.raises(RequestError, match=said):
        loading.parse_yaml(text, "place")
    file = tmp_path / "s.yaml"
    file.write_text(text)
    for command in (
        ["scenarios", "run", str(file), "--engines", "oracle"],
        ["scenarios", "build", str(file), str(tmp_path / "b")],
    ):
        assert main(command) == 2
        out, err = capfd.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("error: ")


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
@pytest.mark.parametrize(
    "step",
    [
        *({"break": {"write": "a\0b", "text": "x"}}, {"break": {"write": "a" * 300, "text": "x"}}),
        *({"break": {"corrupt": "a", "at": 10**9}}, {"move-table": "."}),
        {"append": [{"data": "b", **ROWS, "compression": "no-such"}]},
    ],
    ids=["nul", "long", "beyond", "into-itself", "codec"],
)
def test_what_the_builders_cannot_do_is_an_error_of_the_scenario(place, format_, step):
    refused(place, scenario(format_, {}, append(), step), match="s, history step 2: ")


def _filled(value, place):
    return value.replace("{out}", str(place.parent / "outside")) if isinstance(value, str) else value


def refused(place, wrong, *, match="Cannot write|No file"):
    """The scenario is refused, and nothing beside its directory changed."""
    with pytest.raises(RequestError, match=match):
        build(wrong, place)
    assert (place.parent / "secret").read_text() == "mine"
    assert sorted(p.name for p in place.parent.iterdir()) == ["in", "outside", "secret"]
    assert not any((place.parent / "outside").iterdir())
