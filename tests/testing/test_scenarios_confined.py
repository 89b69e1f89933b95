"""An untrusted scenario file writes only into its directory, and its errors have one line."""

import pytest

from harness.cli import main
from harness.errors import RequestError
from harness.suite.scenarios import loading
from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import from_mapping

SCHEMA = {"schema": {"id": "long", "p": "string"}}
ROWS = {"rows": [[1, "x"]]}


def scenario(format_: str, table: dict, *history: dict):
    whole = {"title": "t", "format": format_, "clauses": [], "table": SCHEMA | table, "history": list(history)}
    return from_mapping(whole | {"expect": []}, "s")


def append(**more):
    return {"append": [{"data": "a", **ROWS, **more}]}


def puffin(path):
    return {"commit": {"add": [{"deletion-vectors": {"a": [0]}, "path": path}]}}


@pytest.fixture
def place(tmp_path):
    """Return the directory for scenarios. Beside it is a foreign file, and inside it a link to that file."""
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
    "break-enclose": {"break": {"enclose": "../../secret"}},
    "move-table-up": {"move-table": "../outside/x"},
    "move-table-absolute": {"move-table": "{out}/x"},
    "move-table-through-a-link": {"move-table": "link/x"},
}


BOTH = ("iceberg", "delta")
DATA = ("../../outside/x.parquet", "{out}/x.parquet", "../link/x.parquet")
PUFFINS = ("../../outside/x.puffin", "{out}/x.puffin")
LED = {"edit-metadata": {"set": {"snapshots/0/manifest-list": "{secret}"}}}
VECTORS = {"features": ["deletionVectors"], "folder": "."}
OUTSIDE = [
    *((format_, {}, [append(), step]) for format_ in BOTH for step in WRITES.values()),
    *((f, {}, [append(path=p)]) for f in BOTH for p in DATA),
    *((format_, {"folder": folder}, []) for format_ in BOTH for folder in ("../outside/t", "{out}/t", "link/t")),
    *(("iceberg", {"format-version": 3}, [append(), puffin(path)]) for path in PUFFINS),
    ("delta", VECTORS, [append(), {"delete-rows": {"rows": {"a": [0]}, "prefix": ".."}}]),
    # A break in a table's files cannot use a recorded path that leads outside.
    ("iceberg", {}, [append(), LED, {"break": {"truncate": "manifest list", "to": 0}}]),
    ("iceberg", {}, [append(set={"file_path": "{secret}"}), {"break": {"truncate": "a", "to": 0}}]),
]


@pytest.mark.parametrize(("format_", "table", "history"), OUTSIDE, ids=str)
def test_nothing_reaches_outside(place, format_, table, history):
    refused(
        place, scenario(format_, filled(table, place), *filled(history, place)), match="Cannot write|No file|filesystem"
    )


@pytest.mark.parametrize("format_", BOTH)
def test_files_inside_the_directory_may_be_written(place, format_):
    steps = [append(path="../beside/a.parquet", **({"addressing": "/"} if format_ == "delta" else {}))]
    build(scenario(format_, {}, *steps, {"break": {"write": "../beside/x", "text": "x"}}, {"move-table": "m"}), place)
    assert (place / "beside" / "x").read_text() == "x"
    assert (place / "m").is_dir()


DIGITS = "9" * 5_000
BAD_YAML = {
    "digits": (f"title: {DIGITS}", "a number has 5,000 digits"),
    "hex-digits": (f"title: 0x{DIGITS}", "a number has 5,002 digits"),
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


@pytest.mark.parametrize(("text", "message"), BAD_YAML.values(), ids=list(BAD_YAML))
def test_bad_yaml_is_one_line(tmp_path, capfd, text, message):
    with pytest.raises(RequestError, match=message):
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


@pytest.mark.parametrize("format_", BOTH)
@pytest.mark.parametrize(
    "step",
    [
        {"break": {"write": "a\0b", "text": "x"}},
        {"break": {"write": "a" * 300, "text": "x"}},
        {"break": {"corrupt": "a", "at": 10**9}},
        {"move-table": "."},
        {"append": [{"data": "b", **ROWS, "compression": "no-such"}]},
    ],
    ids=["nul", "long", "beyond", "into-itself", "codec"],
)
def test_steps_that_builders_cannot_execute_are_errors_of_the_scenario(place, format_, step):
    refused(place, scenario(format_, {}, append(), step), match="s, history step 2: ")


def filled(value, place):
    """Return the value with the outside path in all its texts."""
    match value:
        case str():
            return value.format(out=place.parent / "outside", secret=place.parent / "secret")
        case list():
            return [filled(each, place) for each in value]
        case dict():
            return {key: filled(each, place) for key, each in value.items()}
    return value


def refused(place, wrong, *, match="Cannot write|No file"):
    """Check that the scenario is refused, and that nothing outside its directory changed."""
    with pytest.raises(RequestError, match=match):
        build(wrong, place)
    assert (place.parent / "secret").read_text() == "mine"
    assert sorted(p.name for p in place.parent.iterdir()) == ["in", "outside", "secret"]
    assert not any((place.parent / "outside").iterdir())
