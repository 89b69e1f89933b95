"""`harness shell` from a pipe: how lines form inputs, and completions."""

import io
import re
import signal
from pathlib import Path

import pytest

from harness.cli import interruption, main
from harness.cli.shell.lines import completions
from harness.writing.delta.builder import DeltaTable


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
        .mode csv
        .maxrows 1
        SELECT note FROM days
    """
    assert shell(text) == (0, "     n\nbigint\n------\n     4\nnote\nn7\n", "")


def test_a_failed_statement_prints_a_line_and_the_next_statement_runs(shell):
    text = "FROM sales.order;\nSELECT nope FROM days; SELEC;\n.what\n.mode arrow\n.schema x\nSELECT 1;SHOW y;\n"
    code, out, err = shell(".plan\n" + text)
    assert (code, out) == (2, "      1\ninteger\n-------\n      1\n")
    lines = [re.split(r" \^* ?\[| \[", line)[0] for line in err.splitlines()]
    assert re.match(r'error: DuckDB cannot run the query: .*"nope".*note', lines.pop(2))
    assert re.match(r'error: Cannot parse the query: .*"SELEC"', lines.pop(2))
    assert [lines.pop(2) for _ in range(2)] == ["LINE 1: SELEC", "        ^^^^^"]
    assert lines == [
        "error: Cannot show a plan: there was no query yet; write one, as in .plan SELECT …",
        "error: There is no table sales.order; the nearest are sales.orders",
        "error: There is no command .what; the nearest is .help",
        "error: Cannot write rows as arrow: use one of text, csv, json, jsonl",
        "error: There is no table x; the nearest are days, sales.orders",
        "error: There is no table y; the nearest are days, sales.orders",
    ]


def test_commands_say_what_there_is(shell):
    code, out, err = shell(".tables SALES\n.schema sales.orders\n.help\n.quit\nSELECT 1;")
    assert (code, err) == (0, "")
    assert out.startswith("sales.orders\nid    long\nnote  string\n")
    assert "integer" not in out


def test_the_columns_of_a_table_at_a_path(shell, lake, monkeypatch):
    monkeypatch.chdir(lake)
    lines = [f".schema {place}\n" for place in ("./sales/../days", "'./days'", "file:days", "days")]
    assert shell("".join(lines)) == (0, "id    long\nnote  string\n" * 4, "")
    assert "not the directory of an Iceberg or Delta table" in shell(".schema ./dayz")[2]


@pytest.mark.parametrize("word", ["exit", "quit", "QUIT", " exit ; ", "quit;", ".quit"])
def test_a_word_ends_the_shell_between_statements(shell, word):
    assert shell(f".mode csv\nSELECT 1 AS n;\n{word}\nSELECT 2 AS n;") == (0, "n\n1\n", "")


def test_a_word_of_the_shell_inside_a_statement_is_sql(shell):
    code, out, err = shell(".mode csv\nSELECT quit,\nexit\nFROM (SELECT 1 AS quit, 2 AS exit);\nhelp\n")
    assert (code, err) == (0, "")
    assert out == "quit,exit\n1,2\n" + shell(".help")[1]


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
    assert shell("SELECT count(*) AS n FROM days;", "--table", f"{lake}/days", "--format", "jsonl")[1] == '{"n": 1}\n'
    assert shell("", "--catalog", lake, lake)[0] == 2
    assert shell("", lake, "--format", "parquet")[0] == 2


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (".ta", [".tables"]),
        (".mode j", ["json", "jsonl"]),
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
def test_an_interruption_of_an_inner_block_does_not_end_the_outer_one():
    def interrupted():
        with pytest.raises(KeyboardInterrupt), interruption.listening():
            signal.raise_signal(signal.SIGINT)

    def interrupted_between():
        with interruption.listening():
            interrupted()
            interrupted()
            interruption.check()
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupted_between()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"_HARNESS_COMPLETE": "bash_complete", "COMP_WORDS": "harness sh", "COMP_CWORD": "1"}, "plain,shell\n"),
        (
            {"_HARNESS_COMPLETE": "bash_complete", "COMP_WORDS": "harness sql --tab", "COMP_CWORD": "2"},
            "plain,--table\n",
        ),
        (
            {"_HARNESS_COMPLETE": "fish_complete", "COMP_WORDS": "harness check --level me", "COMP_CWORD": "me"},
            "plain,metadata\n",
        ),
    ],
)
def test_completions_for_the_shells_of_the_system(variables, expected, monkeypatch, capsys):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out == expected


def test_a_shell_is_never_untrusted(shell, lake):
    code, out, err = shell("SELECT 1;", lake, "--untrusted")
    assert (code, out) == (2, "")
    assert "a shell cannot be --untrusted: use harness sql --untrusted for each query" in err


def test_a_file_is_read_as_if_typed(shell, lake, tmp_path):
    inner, outer, latin = (tmp_path / name for name in ("inner.sql", "outer.sql", "latin.sql"))
    inner.write_text(f"SELECT 2 AS b;\n.read {outer}\nSELECT 3 AS c")
    outer.write_text(f".mode csv\nSELECT 1\n  AS a;\n.read {inner}\n")
    latin.write_bytes(b"SELECT '\xe9'")
    code, out, err = shell(f".read {outer}\n.read {latin}\n.read {tmp_path}/none.sql\n.read\nSELECT 4 AS d;")
    assert (code, out) == (2, "a\n1\nb\n2\nc\n3\nd\n4\n")
    assert err.replace(" [Request]", "").splitlines() == [
        f"error: Cannot read statements from {outer}: it is already being read, so it would never end",
        f"error: Cannot read statements from {latin}: it is not UTF-8; name a file",
        f"error: Cannot read statements from {tmp_path}/none.sql: No such file or directory; name a file",
        "error: Cannot read statements from nothing: Is a directory; name a file",
    ]


def test_commands_of_the_command_line_run_and_end(shell, lake):
    inputs = ("-c", ".mode csv\nSELECT count(*) AS n FROM sales.orders; SELECT 1 AS a", "-c", "SELECT 2 AS b")
    assert shell("SELECT 'never';", lake, *inputs) == (0, "n\n3\na\n1\nb\n2\n", "")
    assert shell("", lake, "-c", "FROM nope")[0] == 2
    assert shell("", lake, "-c", ".quit", "-c", "SELECT 1 AS never")[:2] == (0, "")


def test_the_timer_does_not_mix_with_the_rows(shell):
    code, out, err = shell(".timer on\n.mode csv\nSELECT 1 AS a;\n.timer off\nSELECT 2 AS b;\n.timer\n")
    assert (code, out) == (2, "a\n1\nb\n2\n")
    assert re.fullmatch(
        r"run time \d+\.\d{3} s\nerror: Cannot set the timer to nothing: use on or off \[Request\]\n", err
    )
