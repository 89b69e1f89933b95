"""`harness diff` for query files, and for all tables of two directories."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.cli import main
from harness.writing.iceberg.builder import IcebergTable

ROWS = [{"k": 1, "v": 0.1}, {"k": 1, "v": 0.2}, {"k": 1, "v": 0.3}, {"k": 2, "v": 1.0}]


def table(place: Path, rows: list[dict]) -> str:
    built = IcebergTable.create(place, {"k": "long", "v": "double"})
    built.append(built.write_data(rows))
    return str(place)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two warehouses with a table `a`. The right table has the rows in another order."""
    table(tmp_path / "left" / "a", ROWS)
    table(tmp_path / "right" / "a", ROWS[::-1])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_queries(texts: dict[str, str], *more: str) -> list[str]:
    for name, text in texts.items():
        Path(name).write_text(text)
    return ["diff", "--sql-file", *texts, "--table", "t=left/a", "--table", "t=right/a", "--engines", "duckdb", *more]


QUERIES = {
    "1-equal.sql": "SELECT k, count(*) AS n FROM t GROUP BY k;\n",
    "2-sums.sql": "SELECT k, sum(v) AS s FROM t GROUP BY k",
    "3-different.sql": "SELECT list(v) AS l FROM t",
    "4-refused.sql": "DELETE FROM t",
    "5-failed.sql": "SELECT nothing FROM t",
}


@pytest.mark.usefixtures("here")
def test_the_other_reports_say_the_same(capfd) -> None:
    assert main(write_queries(QUERIES)) == 1
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].endswith("1 equal, 1 allowed difference, 1 different, 1 refused, 1 failed")
    assert lines[2].startswith("≠ 3-different.sql  different: 1 row only on the left")
    assert [line[0] for line in lines[2:7]] == ["≠", "!", "?", "≈", "="]
    assert main([*write_queries(QUERIES), "--output", "r.xml", "--output", "r.html"]) == 1
    suite = ElementTree.parse("r.xml").find("testsuite")
    assert suite is not None
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    page = Path("r.html").read_text("utf-8")
    assert page.index("3-different.sql</code>") < page.index("1-equal.sql</code>")
    assert page.count("duckdb, s</th>") == 2
    assert ">different: 1 row only on the left, 1 row only on the right\n\nleft" in page
    # every comparison with differences, including the failed one, which also has a report
    assert page.count("<details") == 3
    assert "<script" not in page


LISTS = "SELECT k, max(v) AS v, list(v) AS l FROM t GROUP BY k"  # differs in l for k = 1
FIRSTS = "SELECT k, list(v)[1] AS v FROM t GROUP BY k"  # 0.1 and 0.3 for k = 1


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("comment", "query", "code"),
    [
        ("", LISTS, 1),
        ("-- harness: --exclude l", LISTS, 0),
        ("-- harness: --tolerance floats=1", FIRSTS, 0),
        ("-- harness: --keys k --tolerance v=1", FIRSTS, 0),
        ("-- harness: --tolerance v=1", FIRSTS, 0),
        ("-- harness: --keys k --tolerance 'v=0.1 because of it'", FIRSTS, 1),
    ],
)
def test_a_comment_says_how_a_query_is_compared(comment: str, query: str, code: int) -> None:
    assert main(write_queries({"q.sql": f"{comment}\n{query}"})) == code


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("texts", "more", "sentence"),
    [
        ({"q.sql": "-- harness: --keep x\nSELECT 1"}, [], "q.sql: in its comment -- harness: '--keep' is unknown"),
        ({"q.sql": "-- harness: --keys\nSELECT 1"}, [], "--keys has no value"),
        ({"q.sql": "SELECT 1"}, ["none.sql"], "--sql-file 'none.sql' cannot be read"),
        ({"q.sql": "SELECT 1"}, ["--table", "x="], "--table 'x=': expected NAME=TABLE or TABLE"),
        ({"q.sql": "SELECT 1"}, ["--table", "a-b"], "--table 'a-b': 'a-b' is not an identifier"),
        ({"q.sql": "SELECT 1"}, ["--table", "t=left/a"], "--table t is given 3 times"),
        ({"q.sql": "SELECT 1"}, ["--sql", "SELECT 1"], "--sql-file cannot be combined with --sql"),
        (
            {"q.sql": "SELECT 1"},
            ["--schema-only"],
            "--sql-file cannot be combined with --sql, --columns, --where, --at, or",
        ),
        ({"q.sql": "-- harness: --trim\nSELECT 1"}, [], "expected one of --keys, --exclude, --tolerance"),
    ],
)
def test_invalid_options_of_queries_are_an_error_of_one_line(capfd, texts, more, sentence) -> None:
    assert main(write_queries(texts, *more)) == 2
    assert sentence in " ".join(capfd.readouterr().err.split())


@pytest.mark.usefixtures("here")
def test_sparks_texts_run_on_duckdb_where_that_is_certain(capfd) -> None:
    texts = {"1.sql": "SELECT `k`, count(*) FROM t GROUP BY k", "2.sql": "SELECT avg(k) FROM t"}
    assert main(write_queries(texts, "--dialect", "spark")) == 2
    out = capfd.readouterr().out
    assert "= 1.sql  no difference in 2 rows" in out
    assert "? 2.sql  refused: Cannot be sure that AVG(k) means the same on DuckDB" in out


@pytest.mark.usefixtures("here")
def test_all_tables_of_two_directories(here: Path, capfd) -> None:
    for side in ("left", "right"):
        table(here / side / "sales" / "b", ROWS[:2] if side == "left" else ROWS[:3])
    table(here / "left" / "c", ROWS)
    given = ["diff", "left", "right", "--engines", "duckdb"]
    assert main(given) == 1
    assert capfd.readouterr().out.splitlines()[2:5] == [
        "≠ c        different: right has no such table",
        "≠ sales.b  different: 1 row only on the right",
        "= a        no difference in 4 rows",
    ]
    assert main([*given, "--output", "r.html"]) == 1
    assert ", s</th>" not in Path("r.html").read_text("utf-8")  # the seconds of no side were measured
    assert main([*given, "--keys", "nothing"]) == 1
    assert "? a        refused: Cannot pair rows by 'nothing'" in capfd.readouterr().out


@pytest.mark.usefixtures("here")
def test_all_tables_have_no_common_snapshot(capfd) -> None:
    assert main(["diff", "left", "right", "--engines", "duckdb", "--at", "1"]) == 2
    assert "--at needs one table on each side" in capfd.readouterr().err


@pytest.mark.usefixtures("here")
def test_one_table_is_no_namespace() -> None:
    assert main(["diff", "left/a", "right/a", "--engines", "duckdb"]) == 0
    assert main(["diff", "left/a", "right/a", "--engines", "duckdb", "--at", "main"]) == 0
