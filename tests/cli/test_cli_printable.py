"""Texts from tables, files, and scenarios cannot control the terminal that a command prints to."""

import contextlib
import io
import json
import os
import pty
import sys
import warnings
from pathlib import Path

import pytest

import harness
from harness.cli import main, results, terminal
from harness.errors import HarnessWarning, InvalidTableError
from harness.storage.threads import phase
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

EVIL = "a\x1b[31m\x9b2J\x7f\u202e\u2066\u2028\u061cz"
STEERING = set(EVIL) - set("a[31m2Jz")


def iceberg(directory: Path) -> IcebergTable:
    table = IcebergTable.create(
        directory / f"ice{EVIL}", {"id": "long", EVIL: "string"}, partition_spec=[(EVIL, "identity")]
    )
    table.append(table.write_data([{"id": 1, EVIL: EVIL}]))
    return table


def delta(directory: Path) -> DeltaTable:
    table = DeltaTable.create(
        directory / f"delta{EVIL}",
        {"id": "long", EVIL: "string", "s": "string"},
        column_mapping="name",
        partition_columns=["s"],
    )
    table.append(table.write_data([{"id": 1, EVIL: EVIL, "s": EVIL}]))
    table.set_configuration({f"user.{EVIL}": EVIL})
    return table


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, str]:
    """Two tables of one row with hostile names, values, paths, and properties, and a table with damaged metadata."""
    directory = tmp_path_factory.mktemp("steering")
    made = {"iceberg": str(iceberg(directory).location), "delta": str(delta(directory).directory)}
    broken = DeltaTable.create(directory / f"broken{EVIL}", {"id": "long"})
    (Path(broken.directory) / "_delta_log" / f"{1:020}.json").write_text(json.dumps({"add": {"path": EVIL}}))
    return made | {"broken": str(broken.directory), "missing": str(directory / f"none{EVIL}")}


def printed(capfd, *arguments: str, code: int | None = None) -> str:
    """Return the text that a command printed to both streams. `code` is the required exit code, or None for any."""
    ended = main(arguments)
    out, err = capfd.readouterr()
    assert code in (None, ended), err
    text = out + err
    assert not STEERING & set(text), arguments
    assert "internal error" not in text
    return text


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_descriptions_and_rows(places, capfd, kind, form):
    rows = ("sql", "SELECT *, [COLUMNS('a.*')] AS l FROM t", "--table", f"t={places[kind]}")
    for command in (rows, *(() if form == "jsonl" else (("info", places[kind]), ("plan", places[kind])))):
        assert "31m" in printed(capfd, *command, "--format", form, code=0)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_traces(places, capfd, kind, form):
    assert "31m" in printed(capfd, "trace", places[kind], "--where", "id = 1", "--missing", "--format", form, code=0)


@pytest.mark.parametrize("form", ["text", "json", "junit", "html"])
def test_differences(places, capfd, form):
    both = (places["iceberg"], places["delta"])
    assert "31m" in printed(capfd, "diff", *both, "--engines", "duckdb", "--format", form, code=1)
    assert "31m" in printed(capfd, "diff", *both, "--engines", "duckdb", "--keys", "id", "--format", form, code=1)
    printed(capfd, "diff", places["broken"], "--engines", "duckdb", "--format", form)


ERRORS = [
    ("info", "{}"),
    ("plan", "{}", "--where", f"{EVIL} = 1"),
    ("sql", f'SELECT "{EVIL}" FROM t', "--table", "t={}"),
    ("info", "{}", "--format", EVIL),
    ("info", "{}", f"--{EVIL}"),
    (EVIL,),
    ("rule", EVIL),
    ("scenarios", "run", EVIL),
    ("scenarios", "run", "--engines", EVIL),
    ("scenarios", "run", "--skips", "{}"),
    ("scenarios", "build", EVIL, "x"),
    ("demo", "--", "{}"),
]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [(a, kind) for a in ERRORS for kind in (("broken", "missing") if a[1:2] == ("{}",) else ("broken",))],
)
def test_errors(places, capfd, arguments, kind):
    assert "31m" in printed(capfd, *(part.replace("{}", places[kind]) for part in arguments))


def test_warnings_and_failures_of_any_kind(monkeypatch, capfd):
    def open_table(location, **options):
        warnings.warn(EVIL, HarnessWarning, stacklevel=1)
        warnings.warn(EVIL, UserWarning, stacklevel=1)
        raise LookupError(EVIL) from InvalidTableError(EVIL, table=EVIL)

    monkeypatch.setitem(vars(harness), "open_table", open_table)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["info", "t"]) == 2
    text = "".join(capfd.readouterr())
    assert not STEERING & set(text)
    assert "internal error" in text
    assert text.count("31m") >= 4


def test_csv_is_escaped_on_a_terminal_and_true_elsewhere():
    parent, child = pty.openpty()
    with open(child, "wb", buffering=0) as end:
        results.write_texts([f"a,{EVIL}\n"], end)
        shown = os.read(parent, 1000).decode()
    os.close(parent)
    assert not STEERING & set(shown)
    assert "a,a\\x1b[31m" in shown
    stream = io.BytesIO()
    results.write_texts([f"a,{EVIL}\n"], stream)
    assert stream.getvalue().decode() == f"a,{EVIL}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="its terminals are no files")
def test_progress_names_its_phases_without_obeying_them(monkeypatch):
    parent, child = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with open(child, "w", encoding="utf-8") as end:
        monkeypatch.setattr(sys, "stderr", end)
        with terminal.progress(f"[bold]{EVIL}"), phase(f"[bold]{EVIL}"):
            terminal.message("a line is drawn below")
    data = b""
    with contextlib.suppress(OSError):  # as no current writer produces
        while part := os.read(parent, 100_000):
            data += part
    os.close(parent)
    shown = data.decode(errors="replace")
    assert "\x9b" not in shown
    assert "\u202e" not in shown
    assert shown.count("[bold]a\\x1b[31m") >= 3  # both while the line was printed, and the outer one at the end
