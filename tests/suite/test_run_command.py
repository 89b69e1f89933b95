"""`harness scenarios run` on the command line, with faulty engines: outcomes, lists, reports and exit codes."""

import json
import shlex

import pytest

from harness.cli import main
from harness.suite.readers import OtherReader

pytestmark = pytest.mark.slow

REMOVED = """
{title: A file that was removed gives no rows, format: delta, clauses: [delta L1], features: [removed-file],
table: {schema: {id: long}},
history: [{append: [{data: a, rows: [[1], [2]]}]}, {append: [{data: b, rows: [[3]]}]}, {remove: [a]}],
expect: [{rows: [[3]]}, {where: "id > 2", rows: [[3]]}]}
"""
PLAIN = """
{title: Two rows, format: delta, clauses: [], features: [], table: {schema: {id: long}},
history: [{append: [{data: a, rows: [[1], [2]]}]}], expect: {rows: [[2], [1]]}}
"""
BROKEN = """
{title: A commit that was cut off is an error, format: delta, clauses: [delta L24], features: [broken],
table: {schema: {id: long}},
history: [{append: [{data: a, rows: [[1]]}]}, {append: [{data: b, rows: [[2]]}]},
{break: {truncate: commit 2, to: -40}}], expect: {error: CorruptFileError}}
"""
DELETED = """
{title: A deleted row is shown and marked, format: iceberg, clauses: [iceberg 5.17], features: [v2, position-delete],
table: {format-version: 2, schema: {id: long}},
history: [{append: [{data: a, rows: [[1], [2]]}]}, {commit: {add: [{position-deletes: [[a, 0]]}]}}],
expect: {columns: [id, _deleted], rows: [[1, true], [2, false]]}}
"""
POLICY = BROKEN.replace("error: CorruptFileError", "error: CorruptFileError, policy: a limit")
VACUOUS = PLAIN.replace("features: []", "features: [deletion-vector]")
UNBUILDABLE = PLAIN.replace("{data: a, rows: [[1], [2]]}", "{data: a, rows: [[1, 2, 3]]}")
ABSENT = OtherReader(name="absent", modules=("no_such_module",), install="nosuch")


@pytest.fixture
def suite(tmp_path):
    """Write scenarios and return the options that select them."""

    def written(**scenarios):
        options = []
        for name, text in scenarios.items():
            path = tmp_path / f"{name}.yaml"
            path.write_text(text, "utf-8")
            options.append(str(path))
        return options

    return written


@pytest.fixture
def outcomes(capsys):
    """Return the exit code and the outcome of each case by its id."""

    def ran(*arguments):
        code = main(["scenarios", "run", *arguments, "--format", "json"])
        document = json.loads(capsys.readouterr().out)
        return code, {f"{case['engine']}::{case['scenario']}": case["outcome"] for case in document["cases"]}

    return ran


def fake(*names):
    return ["--engines", ",".join(name if name in ("duckdb", "oracle") else f"fake_engines:{name}" for name in names)]


def test_wrong_rows_fail_and_only_they_do(suite, outcomes):
    engines = fake("duckdb", "oracle", "Fake", "Declining", "Refusing")
    code, found = outcomes(*suite(removed=REMOVED, plain=PLAIN), *engines)
    assert code == 1
    assert found == {
        "duckdb::removed": "PASS",
        "oracle::removed": "PASS",
        "fake::removed": "FAIL",
        "declining::removed": "UNSUPPORTED",
        "refusing::removed": "ERROR",
        "duckdb::plain": "PASS",
        "oracle::plain": "PASS",
        "fake::plain": "PASS",
        "declining::plain": "UNSUPPORTED",
        "refusing::plain": "ERROR",
    }


@pytest.mark.parametrize(
    ("engine", "texts", "expected", "code"),
    [
        pytest.param("Fake", [PLAIN, VACUOUS, UNBUILDABLE], ["PASS", "ERROR", "ERROR"], 0, id="scenarios-at-fault"),
        pytest.param("Fake", [BROKEN], ["FAIL"], 1, id="rows-of-a-broken-table"),
        pytest.param("Fake", [POLICY], ["POLICY"], 0, id="rows-where-harness-alone-refuses"),
        pytest.param("duckdb", [POLICY], ["PASS"], 0, id="harness-is-held-to-its-policy"),
        pytest.param("Declining", [PLAIN], ["UNSUPPORTED"], 0, id="unsupported"),
        pytest.param("Unwritten", [PLAIN], ["UNSUPPORTED"], 0, id="not-implemented"),
        pytest.param("Refusing", [PLAIN, BROKEN], ["ERROR", "UNSUPPORTED"], 0, id="the-intact-copy-refused-too"),
        pytest.param("Crashing", [PLAIN, BROKEN], ["ERROR", "ERROR"], 2, id="a-crash-refuses-nothing"),
        pytest.param("Counting", [DELETED, PLAIN], ["PASS", "FAIL"], 1, id="deleted-rows-are-not-counted"),
        pytest.param("Claiming", [PLAIN, REMOVED], ["PASS", "UNSUPPORTED"], 0, id="not-claimed"),
    ],
)
def test_exit_codes(suite, outcomes, engine, texts, expected, code):
    named = dict(zip("abc", texts, strict=False))
    found = dict(zip((f"{engine.lower()}::{name}" for name in named), expected, strict=True))
    assert outcomes(*suite(**named), *fake(engine)) == (code, found)


def test_a_hang_ends_at_the_time_limit_and_the_next_read_is_made(suite, capsys):
    assert main(["scenarios", "run", *suite(removed=REMOVED), *fake("Hanging"), "--time-limit", "3"]) == 1
    text = capsys.readouterr().out
    assert "read 1, all columns: ERROR: TimeLimit: time limit: no answer within 3 s" in text
    assert "read 2, all columns where id > 2: FAIL: 2 rows read and not expected" in text


@pytest.mark.parametrize(
    ("option", "line", "engine", "outcome", "code"),
    [
        pytest.param("--xfails", "fake::removed # bug 7", "Fake", "XFAIL", 0, id="xfail"),
        pytest.param("--xfails", "*::rem* # bug 7", "Refusing", "XFAIL", 0, id="pattern"),
        pytest.param("--xfails", "declining::* # bug 7", "Declining", "UNSUPPORTED", 0, id="unsupported-stays"),
        pytest.param("--xfails", "other::* # bug 7", "Fake", "FAIL", 1, id="another-engine"),
        pytest.param("--skips", "fake::removed # kills the machine", "Fake", "SKIP", 0, id="skip"),
    ],
)
def test_lists(suite, outcomes, tmp_path, option, line, engine, outcome, code):
    (tmp_path / "list.txt").write_text(f"# known\n\n{line}\n", "utf-8")
    found = outcomes(*suite(removed=REMOVED), *fake(engine), option, str(tmp_path / "list.txt"))
    assert found == (code, {f"{engine.lower()}::removed": outcome})


def test_a_written_list_of_failures_is_expected_by_the_next_run(suite, tmp_path, capsys):
    arguments = ["scenarios", "run", *suite(plain=PLAIN, removed=REMOVED), *fake("Fake")]
    assert main([*arguments, "--write-xfails", str(tmp_path / "list.txt")]) == 1
    (line,) = (tmp_path / "list.txt").read_text("utf-8").splitlines()
    assert line.startswith("fake::removed  # FAIL: ")
    assert main([*arguments, "--xfails", str(tmp_path / "list.txt")]) == 0
    assert "1 PASS, 1 XFAIL" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--engines", "duckbd"], "did you mean duckdb?", id="misspelt-engine"),
        pytest.param(["--engines", "fake_engines:Declinin"], "did you mean Declining", id="misspelt-attribute"),
        pytest.param(["--engines", "no_such:Engine"], "No module named 'no_such'", id="engine-not-there"),
        pytest.param(["no/such/*"], "No scenario matches", id="scenario"),
        pytest.param(["-k", "deletion-vektor"], "No scenario matches -k 'deletion-vektor'", id="keywords"),
        pytest.param(["-k", "plain plain"], "expected words with and, or, not and parentheses", id="expression"),
        pytest.param(["--python", "pyicebreg=/x"], "did you mean pyiceberg?", id="python-of-no-engine"),
        pytest.param(["--python", "x"], "not of the form NAME=VALUE", id="python-without-path"),
        pytest.param(["--skips", "no-such-file"], "Cannot read the list", id="list"),
        pytest.param(fake("Fake", "an_instance"), "two engines are called 'fake'", id="two-of-one-name"),
    ],
)
def test_a_run_that_cannot_start_exits_with_2(suite, capsys, arguments, message):
    given = [] if arguments[0].startswith("no/") else suite(plain=PLAIN)
    engine = [] if "--engines" in arguments else ["--engines", "duckdb"]
    assert main(["scenarios", "run", *given, *engine, *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fake::removed", "has no reason"),
        ("fake::removed #", "has no reason"),
        ("removed # bug", "expected ENGINE::SCENARIO"),
    ],
)
def test_a_line_of_a_list_says_why(capsys, tmp_path, line, message):
    (tmp_path / "list.txt").write_text(f"{line}\n", "utf-8")
    assert main(["scenarios", "run", *fake("Fake"), "--skips", str(tmp_path / "list.txt")]) == 2
    assert message in capsys.readouterr().err


def test_the_command_of_a_failure_shows_it_again_and_keeps_the_table(suite, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["scenarios", "run", *suite(removed=REMOVED), *fake("Fake")]) == 1
    text = capsys.readouterr().out
    again = shlex.split(text[text.index("again: ") :].splitlines()[0])[2:]
    assert main(again) == 1
    assert "FAIL  fake::removed" in capsys.readouterr().out
    assert (tmp_path / "repro" / "removed" / "table" / "_delta_log").is_dir()
    assert main(again) == 2
    assert "Cannot keep a table: the path already exists" in capsys.readouterr().err


def test_an_entry_point_is_known_by_its_name(suite, outcomes, monkeypatch):
    from importlib.metadata import EntryPoint

    points = [EntryPoint("mine", "fake_engines:Fake", "harness.readers")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points if group == "harness.readers" else [])
    assert outcomes(*suite(plain=PLAIN), "--engines", "mine") == (0, {"fake::plain": "PASS"})


def test_all_runs_the_available_engines_and_reports_the_others(suite, capsys, monkeypatch):
    monkeypatch.setattr("harness.suite.readers.engine_names", lambda: ("duckdb",))
    monkeypatch.setattr("harness.suite.readers.READERS", {"absent": ABSENT})
    monkeypatch.delenv("HARNESS_READERS", raising=False)
    assert main(["scenarios", "run", *suite(plain=PLAIN), "--engines", "all"]) == 0
    text = capsys.readouterr().out
    assert "not run: absent: Cannot use the engine absent: no_such_module is not installed" in text
    assert "not run: iceberg-go: Cannot use the engine iceberg-go: it is not built" in text
    assert text.endswith("1 scenario on 1 engine: 1 PASS\n")


def test_a_run_prints_no_warning_about_the_tables_of_the_suite(capsys):
    """Reading this table warns that columns are matched by position."""
    assert main(["scenarios", "run", "iceberg/files/by-position", "--engines", "duckdb"]) == 0
    assert "warning" not in capsys.readouterr().err
