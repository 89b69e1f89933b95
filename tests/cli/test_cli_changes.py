"""`harness changes`, and the table function `changes` in `harness sql` and the shell."""

import io
import json
from pathlib import Path

import changed_tables
import pyarrow.parquet as pq
import pytest
from changed_tables import S1, S3, S4

from harness.cli import main


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("changes")
    return {
        "ice": changed_tables.iceberg(root / "ice").location,
        "dlt": str(changed_tables.delta(root / "dlt").directory),
    }


def run(words: str, places: dict[str, str]) -> int:
    """Run a command whose words are separated by spaces. A tilde stands for a space."""
    return main([places.get(word, word.replace("~", " ")) for word in words.split()])


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (
            f"changes ice --from {S3}",
            "    id       n  _change_type  _change_ordinal  _commit_snapshot_id\n"
            "bigint  bigint  varchar               integer               bigint\n"
            "------  ------  ------------  ---------------  -------------------\n"
            f"     2      20  delete                      0     {S4}\n"
            f"     2      21  insert                      0     {S4}\n",
        ),
        ("changes ice --from first --columns n,_change_type --where id=1 --format csv", "n,_change_type\n10,delete\n"),
        (f"changes ice --from {S4} --from-inclusive --columns n --format csv", "n\n20\n21\n"),
        (f"changes ice --to {S1} --columns n,_change_ordinal --format csv", "n,_change_ordinal\n10,0\n20,0\n"),
        ("changes ice --mode net --columns n,_change_type --format csv", "n,_change_type\n21,insert\n30,insert\n"),
        ("changes ice --mode appends --columns n --where n>10 --format csv", "n\n20\n30\n"),
        (
            f"changes ice --from {S3} --mode updates --columns n,_change_type --format csv",
            "n,_change_type\n20,update_preimage\n21,update_postimage\n",
        ),
        (
            f"changes ice --from {S3} --mode updates --keys n --columns n,_change_type --format csv",
            "n,_change_type\n20,delete\n21,insert\n",
        ),
        (
            "changes dlt --from 3 --columns n,_change_type,_commit_version --format csv",
            "n,_change_type,_commit_version\n10,delete,3\n20,update_preimage,4\n21,update_postimage,4\n",
        ),
        ("changes dlt --from 3 --from-exclusive --columns n --format csv", "n\n20\n21\n"),
        ("changes dlt --from 1 --to 2 --columns n --where _commit_version=2 --format jsonl", '{"n": 30}\n'),
        (
            "changes dlt --from 2 --to 2 --columns n -n 0",
            "     n\nbigint\n------\n(0 of 1 rows; --max-rows all shows all)\n",
        ),
        ("sql SELECT~n~FROM~changes('t',~3,~3) --table t=dlt --format csv", "n\n10\n"),
    ],
)
def test_rows(words: str, printed: str, places: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    words = words.replace("t=dlt", f"t={places['dlt']}")
    assert run(words, places) == 0
    out, err = capfd.readouterr()
    assert err == ""
    head = 3 if "--format" not in words else 1 if "csv" in words else 0
    lines, expected = out.splitlines(), printed.splitlines()  # changes have no order
    assert lines[:head] + sorted(lines[head:]) == expected[:head] + sorted(expected[head:])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("changes dlt", "Cannot read changes without --from: give a version or a time [ChangeFeedError; table "),
        ("changes dlt --from main", "Cannot read changes: --from is 'main', and Delta tables have no branches"),
        ("changes dlt --from 1 --to ref=a", "Cannot read changes: --to is 'a', and Delta tables have no branches"),
        ("changes dlt --from 3 --to 1", "the range starts at version 3, after its end at version 1"),
        ("changes dlt --from 1 --mode net", "Invalid option --mode net: a Delta table has a change data feed"),
        ("changes dlt --from 1 --keys id", "Invalid option --keys: the change data feed"),
        ("changes ice --keys id", "Invalid option --keys: only --mode updates uses --keys"),
        (f"changes ice --from {S3} --to {S1}", "is not an ancestor"),
        ("changes ice --from timestamp=x", "Invalid timestamp: got 'x'"),
        ("changes ice --from snapshot=x", "Invalid --from snapshot=x: a snapshot is a 64-bit number"),
        ("changes ice --mode all", "'all' is not one of 'appends', 'changelog', 'net', 'updates'"),
        ("changes ice --engine none", "none"),
        ("changes ice --untrusted --engine spark", "Cannot run spark with --untrusted"),
        ("changes ice --where x=1", 'Unknown column "x"'),
        ("changes ice -n x", "--max-rows 'x': expected a number of rows, or all"),
        ("sql FROM~changes('t',~3) --table t=dlt --at 2", "Cannot read changes of t: it has only one state"),
        ("sql FROM~changes('u',~3) --table t=dlt", "There is no table u"),
    ],
)
def test_errors(words: str, message: str, places: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(words.replace("t=dlt", f"t={places['dlt']}"), places) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err
    assert err.rstrip("\n").partition("error: ")[2].count("\n") == 0


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json", "jsonl", "arrow", "arrows", "txt"])
def test_files(suffix: str, places: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"changes.{suffix}"
    assert run(f"changes ice --from {S1} --columns n -o {file}", places) == 0
    assert capfd.readouterr().out == ""
    if suffix == "parquet":
        assert sorted(pq.read_table(file)["n"].to_pylist()) == [10, 20, 21, 30]
    if suffix == "json":
        document = json.loads(file.read_text())
        assert (document["kind"], document["row_count"]) == ("rows", 4)
    assert file.stat().st_size > 0


def test_untrusted(places: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run("changes dlt --from 2 --from-exclusive --to 3 --columns n --format csv --untrusted", places) == 0
    assert capfd.readouterr().out == "n\n10\n"


def test_names_in_a_catalog(places: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    root = Path(places["ice"]).parent
    assert (
        main(
            [
                "changes",
                "ice",
                "--from",
                "first",
                "--columns",
                "n",
                "--where",
                "id = 1",
                "--catalog",
                str(root),
                "--format",
                "csv",
            ]
        )
        == 0
    )
    assert capfd.readouterr().out == "n\n10\n"
    query = "SELECT n FROM changes('ice', 'first') WHERE id = 1"
    assert main(["sql", query, "--catalog", str(root), "--format", "csv"]) == 0
    assert capfd.readouterr().out == "n\n10\n"
    assert main(["sql", query, "--catalog", str(root), "--at", str(S4)]) == 2
    assert "Cannot read changes of ice: it has only one state" in capfd.readouterr().err


def test_the_shell(places: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT n FROM changes('ice', 'first') WHERE id = 1;"))
    assert main(["shell", str(Path(places["ice"]).parent), "--format", "csv"]) == 0
    assert capfd.readouterr().out == "n\n10\n"


@pytest.mark.harness_spark
def test_spark_writes_the_same_rows(places: dict[str, str], capfd: pytest.CaptureFixture[str], spark: object) -> None:
    printed = []
    for engine in ("duckdb", "spark"):
        assert run(f"changes ice --from {S1} --format csv --engine {engine}", places) == 0
        printed.append(sorted(capfd.readouterr().out.splitlines()))
    assert printed[0] == printed[1]
    assert len(printed[0]) == 5
