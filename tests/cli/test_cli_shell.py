"""`harness shell` from a pipe; how inputs are put together, and how they may go on."""

from __future__ import annotations

import io
import re
import signal
from pathlib import Path

import pytest

from harness.cli import interruption, main, untrusted
from harness.cli.shell.command import Inputs
from harness.cli.shell.session import ApartSession
from harness.cli.shell.terminal_lines import completions
from harness.cli.writers import RowFormat
from harness.testing.writing.delta.builder import DeltaTable
from harness.tools.contained.launching import Finished


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory: Path = tmp_path_factory.mktemp("lake")
    for name, ids in (("sales/orders", (1, 2, 3)), ("days", (7,))):
        table = DeltaTable.create(directory / name, {"id": "long", "note": "string"})
        table.append(*(table.write_data([{"id": i, "note": f"n{i}"}]) for i in ids))
    return str(directory)


@pytest.fixture
def shell(lake, monkeypatch, capsys):
    def run(text: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        code = main(["shell", *(arguments or (lake,))])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_statements_and_commands_run_one_after_the_other(shell):
    text = """
        CREATE TEMP TABLE mine AS
          SELECT id FROM sales.orders
          WHERE id > 1;
        INSERT INTO mine FROM mine; SELECT count(*) AS n FROM mine;
        .format csv
        .max-rows 1
        SELECT note FROM days
    """
    assert shell(text) == (0, "n\n-\n4\nnote\nn7\n", "")


def test_what_fails_is_a_line_and_the_next_statement_runs(shell):
    text = "FROM sales.order;\nSELECT nope FROM days; SELEC;\n.what\n.format arrow\n.schema x\nSELECT 1;SHOW y;\n"
    code, out, err = shell(".plan\n" + text)
    assert (code, out) == (2, "1\n-\n1\n")
    lines = [re.split(r" \^* ?\[| \[", line)[0] for line in err.splitlines()]
    assert re.match(r'error: DuckDB cannot run the query: .*"nope".*"note"', lines.pop(2))
    assert re.match(r'error: Cannot parse the statement: .*"SELEC"', lines.pop(2))
    assert lines == [
        "error: Cannot show a plan: there was no query yet; say one, .plan SELECT …",
        "error: There is no table sales.order; the nearest are sales.orders",
        "error: There is no command .what; the nearest is .help",
        "error: Cannot write rows as arrow: say one of text, csv, json, jsonl",
        "error: There is no table x; the nearest are days, sales.orders",
        "error: There is no table y; the nearest are days, sales.orders",
    ]


def test_commands_say_what_there_is(shell):
    code, out, err = shell(".tables SALES\n.schema sales.orders\n.help\n.quit\nSELECT 1;")
    assert (code, err) == (0, "")
    assert out.startswith("sales.orders\nid    long\nnote  string\n")
    assert "1\n-\n" not in out


def test_rows_that_are_left_out_are_counted(shell):
    assert shell(".max-rows 1\nFROM range(3);") == (
        0,
        "range\n-----\n    0\n(1 of 3 rows; .max-rows all shows all)\n",
        "",
    )


def test_the_plan_of_a_query(shell):
    text = "SELECT id FROM sales.orders WHERE id > 2;\n.plan\n.plan SELECT 1\nEXPLAIN SELECT id FROM days;\n"
    code, out, _ = shell(text)
    assert code == 0
    assert "files 1 read, 2 skipped" in out
    assert "The query reads no table of the catalog.\n" in out
    assert "READ_PARQUET" in out
    assert "explain_key" not in out


def test_tables_of_names_of_their_own(shell, lake):
    assert shell("SELECT count(*) AS n FROM t;", "--table", f"t={lake}/days", "--format", "jsonl")[1] == '{"n": 1}\n'
    assert shell("", "--catalog", lake, lake)[0] == 2
    assert shell("", lake, "--format", "parquet")[0] == 2


def test_inputs_are_put_together_of_lines():
    inputs = Inputs()
    assert [inputs.add(line) for line in (".tables a", "SELECT ';", "'; SELECT 2;")] == [
        ".tables a",
        None,
        "SELECT ';\n'; SELECT 2;\n",
    ]
    assert [inputs.add("SELECT"), inputs.add(".5;\n")] == [None, "SELECT\n.5;\n"]
    inputs.add("given up")
    assert (inputs.give_up(), inputs.unfinished) == ("given up\n", "")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (".ta", [".tables"]),
        (".format j", ["json", "jsonl"]),
        (".schema sales.or", ["sales.orders"]),
        ("SELECT * FROM sal", ["sales.orders", "sales.old"]),
        ("SELECT * FROM SALES.OR", ["sales.orders"]),
        ("SELECT no", ["not"]),
        ("SEL", ["SELECT"]),
        ("SELECT * FROM sales.orders WHERE no", ["note"]),
        ("SELECT * FROM sales.orders\nWHERE orders.", ["orders.id", "orders.note"]),
        ("SELECT sales.orders.i", ["sales.orders.id"]),
        ("SELECT * FROM sales.orders WHERE ", ["id", "note", "sales.orders", "sales.old", '"odd name"']),
        ('SELECT * FROM "od', ['"odd name"']),
        ("SELECT * FROM sales.old WHERE ", ['"when"', "sales.orders", "sales.old", '"odd name"']),
        ("SELECT xyz", []),
    ],
)
def test_how_a_line_may_go_on(typed, expected):
    text, _, word = typed.rpartition(" ")
    names = [("sales", "orders"), ("sales", "old"), ("odd name",)]
    columns = {"sales.orders": ["id", "note"], "sales.old": ["when"]}
    found = completions(word, text + " ", lambda: names, lambda table: columns.get(table, []))
    assert found == expected


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_ends_what_listens_anew_and_not_the_command():
    with interruption.listening() as whole:
        with interruption.set_aside():
            for _ in range(2):
                with pytest.raises(KeyboardInterrupt), interruption.anew():
                    signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):  # between two of them
                signal.raise_signal(signal.SIGINT)
        interruption.check()
        assert not whole
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert whole


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"_HARNESS_COMPLETE": "complete_bash", "COMP_WORDS": "harness sh", "COMP_CWORD": "1"}, "shell\n"),
        ({"_HARNESS_COMPLETE": "complete_bash", "COMP_WORDS": "harness sql --tab", "COMP_CWORD": "2"}, "--table\n"),
        (
            {"_HARNESS_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
            | {"_TYPER_COMPLETE_ARGS": "harness plan --outside re"},
            "refuse\n",
        ),
    ],
)
def test_shells_of_the_system_are_told_how_a_command_may_go_on(asked, expected, monkeypatch, capsys):
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out == expected


def test_the_chosen_namespace_and_locations(shell, lake, monkeypatch):
    text = "USE sales;\n.tables\nFROM orders LIMIT 0;\nSHOW TABLES;\n"
    assert shell(text) == (0, "orders\nid  note\n--  ----\nname\n------\norders\n", "")
    monkeypatch.setattr("harness.metadata.catalogs.resolving.configured", dict)
    assert shell(f".format csv\nSELECT id FROM '{lake}/days';", "--max-rows", "all") == (0, "id\n7\n", "")


@pytest.fixture
def inputs(monkeypatch):
    """What goes to workers, which all give back the same."""
    started: list[tuple[str, list[str], tuple[str, ...]]] = []

    def run(work, request, *, directories, **how):
        started.append((request["input"], request["words"], directories))
        return Finished(2, b"rows\n", "error: of one\n")

    monkeypatch.setattr(untrusted, "run_worker", run)
    return started


def test_an_untrusted_pipe_is_one_input_of_a_worker(inputs, shell, lake):
    text = f"FROM sales.orders;\n.tables\nFROM '{lake}/days';"
    assert shell(text, lake, "--untrusted", "--table", "x=/u/x") == (2, "rows\n", "error: of one\n")
    ((given, words, directories),) = inputs
    assert given == text
    assert words == [
        "shell",
        "--table=x=/u/x",
        "--format=text",
        "--max-rows=40",
        "--outside=warn",
        "--prune=all",
        "--untrusted",
        "--",
        lake,
    ]
    assert set(directories) == {lake, "/u/x", f"{lake}/days"}


def test_an_untrusted_session_sets_here_and_reads_there(inputs, lake, capsys):
    def apart(text, shown):
        inputs.append((text, shown, ()))
        return "nope" not in text

    session = ApartSession(apart, row_format=RowFormat.TEXT, max_rows=40)
    for text in (".format csv", ".max-rows all", "SELECT 1;\n", ".plan", ".tables", ".what"):
        session.run(text)
    shown = {"format_": RowFormat.CSV, "max_rows": "all"}
    assert [(text, how) for text, how, _ in inputs] == [
        (t, shown) for t in ("SELECT 1;\n", ".plan SELECT 1;", ".tables")
    ]
    assert session.has_failed  # there is no command .what
    session.has_failed = False
    session.run("FROM nope;")
    assert session.has_failed
    session.run(".quit")
    assert session.is_over


def test_an_untrusted_shell_asks_no_catalog(shell, monkeypatch):
    monkeypatch.setattr("harness.cli.shell.session.open_catalog", lambda name: object())
    code, _, err = shell("SELECT 1;", "prod", "--untrusted")
    assert code == 2
    assert err.startswith("error: Cannot ask catalog prod with --untrusted: there is no network where it reads; give a")
