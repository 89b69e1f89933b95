"""Scripts of scenarios: after a run in a bare Python in another folder, reads of the table return the expected rows."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from harness.cli import main
from harness.errors import RequestError
from harness.metadata.model.schema import METADATA
from harness.suite.commands import commands
from harness.suite.reader import At, TableAt
from harness.suite.readers import READERS, interpreter_of
from harness.suite.results import Outcome
from harness.suite.runner import table_at
from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import find, load
from harness.suite.scenarios.verifying import read_with, verify
from harness.suite.scores import Strictness, score_read

PROGRAM = Path(__file__).parent / "programs/commands.py"
REPORTS = Path(__file__).parents[2] / "docs/suite/reports"
ENVIRONMENTS = {
    "DuckDB": "duckdb-{format}",
    "Spark": "spark-{format}",
    "ClickHouse": "chdb",
    "PyIceberg": "pyiceberg",
    "deltalake": "deltalake",
    "Polars": "polars",
    "Daft": "daft",
}


def unpacked(name, folder, script=None):
    """Return the scenario as its script writes it below a folder, and the script's output. None writes a new script."""
    if script is None:
        script = folder / "script.py"
        assert main(["scenarios", "script", name, "--output", str(script)]) == 0
    place = folder / "elsewhere"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(script), str(place)], capture_output=True, text=True, check=True, cwd="/"
    )
    here = folder / "here"
    built = build(load(Path(name)) if name.endswith(".yaml") else find(name)[0], here)
    (root,) = place.iterdir()

    def moved(path):
        return path and root / path.relative_to(here)

    return replace(built, location=moved(built.location), metadata_path=moved(built.metadata_path)), done.stdout


@pytest.mark.parametrize(
    "name",
    [
        "iceberg/deletes/null-keys",
        "iceberg/deletes/position-delete-of-own-commit",  # paths in Parquet and in bounds
        "iceberg/deletes/positions-in-avro-and-orc-data",
        "iceberg/deletes/deletion-vector-beats-position-deletes",
        "iceberg/metadata/gzip",
        "iceberg/deletes/vector-of-wrong-checksum",
        "delta/deletion-vectors/absolute-path",
        "delta/checkpoints/multi-part",
        "delta/time-travel/by-file-time",
    ],
)
def test_a_script_writes_the_table_where_it_is_run(name, tmp_path, capsys):
    built, printed = unpacked(name, tmp_path)
    assert [verify(each, read_with(built, "duckdb")) for each in built.expectations] == [None] * len(built.expectations)
    assert str(built.metadata_path or built.location) in printed
    assert f"== Read {len(built.expectations)}: " in printed
    assert (tmp_path / "script.py").stat().st_size <= 30 * 1024


def test_commands_say_the_point_of_history_the_columns_and_the_filter():
    table = TableAt(format="iceberg", location="/t", metadata_path="/t/metadata/v2.json", at=At("timestamp_ms", 1_500))
    found = commands(table, ("id", 'a"b'), "starts_with(id, 'x')")
    assert found["DuckDB"].splitlines()[1] == (
        """SELECT "id", "a""b" FROM iceberg_scan('/t/metadata/v2.json', snapshot_from_timestamp => """
        "TIMESTAMP '1970-01-01 00:00:01.500000') WHERE STARTS_WITH(id, 'x');"
    )
    assert found["Spark"].splitlines()[1] == (
        """spark.read.format("iceberg").option("timestampAsOf", '1970-01-01 00:00:01.500000')"""
        """.load('/t/metadata/v2.json')"""
        """.where("STARTSWITH(id, 'x')").select(*('`id`', '`a"b`')).show(truncate=False)"""
    )
    assert "snapshot_id=table.snapshot_as_of_timestamp(1500).snapshot_id, row_filter=" in found["PyIceberg"]
    assert "Polars" not in found, "it has no words for a time"


def test_a_script_shows_characters_that_steer_as_text(tmp_path):
    text = find("delta/log/bare-removals")[0].path.read_text("utf-8")
    scenario, script = tmp_path / "s.yaml", tmp_path / "s.py"
    scenario.write_text(re.sub("(?m)^title: .*", r'title: "a\\x1b[31m\\0\\u202eb"', text), "utf-8")
    assert main(["scenarios", "script", str(scenario), "--output", str(script)]) == 0
    assert r"a\\x1b[31m\\x00\\u202eb" in script.read_text("utf-8")
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(r"a\x1b[31m\x00\u202eb")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("iceberg/deletes/positions-over-large-row-groups", "the limit is 30,720"),
        ("iceberg/manifests/codecs", "stores its path in a form that cannot be replaced"),
        ("iceberg/deletes/vector-*", "name one"),
    ],
)
def test_a_script_that_cannot_be_is_refused(name, message, tmp_path, capsys):
    assert main(["scenarios", "script", name, "--output", str(tmp_path / "script.py")]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scenario", sorted(REPORTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_script_of_a_report_writes_the_table_of_its_scenario(scenario, tmp_path, capsys):
    built, _ = unpacked(str(scenario), tmp_path)
    assert [verify(each, read_with(built, "duckdb")) for each in built.expectations] == [None]


def is_for_others(read):
    """Return whether a read returns rows with columns that other readers have."""
    return isinstance(read.expected, pa.Table) and not METADATA.keys() & {*read.expected.column_names}


RIGHT = {
    "iceberg/deletes/position-delete-of-own-commit": "DuckDB PyIceberg Polars Daft ClickHouse Spark",
    "iceberg/deletes/many-vectors-in-one-puffin": "DuckDB PyIceberg Polars Spark",
    "iceberg/deletes/equality-delete-spares-own-commit": "DuckDB ClickHouse Spark",
    "iceberg/time-travel/snapshots-and-schemas": "DuckDB PyIceberg Polars Daft ClickHouse Spark",
    "delta/checkpoints/multi-part": "deltalake Polars Daft Spark",
    "delta/deletion-vectors/relative": "DuckDB deltalake Polars Spark",
    "delta/time-travel/by-version": "DuckDB deltalake Polars Daft ClickHouse Spark",
    "delta/time-travel/by-file-time": "DuckDB deltalake Polars Daft ClickHouse Spark",
}
"""Scenarios and the readers that read them rightly, by the versions that `readers` pins."""


@pytest.mark.slow
@pytest.mark.parametrize("reader", ENVIRONMENTS)
def test_commands_run_in_their_readers(reader, tmp_path, capsys):
    asked = {}
    for name in (name for name, readers in RIGHT.items() if reader in readers.split()):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        built, _ = unpacked(name, folder)
        for each in filter(is_for_others, built.expectations):
            if command := commands(table_at(built, each), each.columns, each.where).get(reader):
                format_ = name.partition("/")[0]
                asked.setdefault(ENVIRONMENTS[reader].format(format=format_), []).append((each, command))
    wrong = []
    for environment, reads in asked.items():
        try:
            python = interpreter_of(READERS[environment], {})
        except RequestError as error:
            pytest.skip(error.message)
        if python == sys.executable:
            pytest.skip(f"{environment} has no interpreter of its own: its versions are others here")
        files = [tmp_path / f"{environment}-{number}" for number in range(len(reads))]
        lines = [json.dumps([str(file), command]) for file, (_, command) in zip(files, reads, strict=True)]
        subprocess.run([python, str(PROGRAM), reader], input="\n".join(lines), text=True, check=True, timeout=300)
        for file, (each, command) in zip(files, reads, strict=True):
            if not file.exists():
                wrong.append((command, file.with_name(f"{file.name}.error").read_text("utf-8")))
                continue
            with pa.OSFile(str(file)) as source:
                found = score_read(each, pa.ipc.open_stream(source).read_all(), Strictness.FOREIGN, reader)
            wrong += [(command, found.message)] if found.outcome is not Outcome.PASS else []
    assert wrong == []
