"""Tables that a reference implementation writes step by step, compared with what harness reads.

Statements, also those of the histories in files, are formatted with the names of the table:

    {t}           the table, in SQL                     {ref}     the same, for Iceberg's procedures
    {source}      another table in the same place       {elsewhere}   a directory next to the table's
    {s[0]}        the id of its first snapshot, and so on, as made
    {now}         a timestamp after every snapshot
"""

import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from hypothesis import currently_in_test_context, note

import harness
from harness.check.rules import Severity
from harness.suite.oracle_engine import read_with_oracle
from harness.suite.scores import convert_types

ENGINES = ("duckdb", "oracle", "spark")
Step: TypeAlias = str | tuple[str, ...] | Callable[[Any, str], None]
"""A statement; several statements with no comparison between them; or a call of the implementation's Java interface
with the session and the table's name in SQL, or for Delta the table's directory.
"""


@dataclass(frozen=True, slots=True)
class WrittenReading:
    """The part of a table that is compared.

    Attributes:
        select: The columns in SQL, under harness's names.
        texts: Columns of type variant, or fields of structs, which harness returns as JSON text.
        oldest: The first version whose files still exist.
        feed: If true, compare the change data feed too.
        proof: Glob patterns, relative to the table's directory, of files that the history must produce.
    """

    select: str = "*"
    texts: tuple[str, ...] = ()
    oldest: int = 0
    feed: bool = False
    proof: tuple[str, ...] = ()


def histories(file: str, words: Mapping[str, str], calls: Mapping[str, Any]) -> dict[str, tuple[Step, ...]]:
    """Return the histories in a file by name. `iceberg_histories.txt` describes the form.

    Args:
        file: The name of the file.
        words: Texts for names in braces, in addition to those in the file.
        calls: Functions and steps that `!` calls, by name.
    """
    text = re.sub(r"\n +", " ", Path(__file__).with_name(file).read_text("utf-8"))
    known, parts = dict(words), {}
    for line in text.splitlines():
        for word, meaning in known.items():
            line = line.replace(f"{{{word}}}", meaning)
        mark, _, rest = line.partition(" ")
        if mark in ("#", "##"):
            steps = parts[line] = []
        elif rest.startswith(":= "):
            known[mark] = rest.removeprefix(":= ")
        elif mark == "=":
            steps += parts[f"## {rest}"]
        elif mark == "!":
            steps.append(eval(rest, dict(calls)))
        elif mark == "+":
            steps[-1] = (*([steps[-1]] if isinstance(steps[-1], str) else steps[-1]), rest)
        elif line and mark != "--":
            steps.append(line)
    return {name.removeprefix("# "): tuple(steps) for name, steps in parts.items() if name.startswith("# ")}


class WrittenTable:
    """A table of a reference writer. `location` is its directory, which does not exist yet."""

    name: str
    table: str
    handle: str

    def __init__(
        self, spark: Any, location: Path, counted: Counter[str], reading: WrittenReading | None = None
    ) -> None:
        self.spark, self.location, self.counted = spark, location, counted
        self.reading = reading or WrittenReading()
        self.snapshots: list[int] = []

    def run(self, steps: Iterable[Step]) -> None:
        """Execute all steps, compare after each of them, and finally compare every point of the table's history."""
        for step in steps:
            if currently_in_test_context():
                note(str(step))
            statements = (step,) if isinstance(step, str) or callable(step) else step
            for statement in statements:
                self.counted[f"{self.name} statements"] += 1
                if callable(statement):
                    statement(self.spark, self.handle)
                else:
                    self.spark.sql(self._with_table_name(statement))
            if not (isinstance(step, str) and step.startswith(("SET ", "RESET "))):
                self.current()
        absent = [pattern for pattern in self.reading.proof if not any(self.location.glob(pattern))]
        assert not absent, f"{self.name} did not write what the history is about"
        self.every_point()
        self.traced()
        self.sound()
        self.counted[f"{self.name} histories"] += 1

    def current(self) -> None:
        """Compare the current rows."""
        raise AssertionError("of the format")

    def every_point(self) -> None:
        """Compare every point of the history that can still be read."""
        raise AssertionError("of the format")

    def traced(self) -> None:
        """Check that the rows that a trace calls visible are the current rows."""
        opened = harness.open_table(str(self.location))
        places = opened.snapshot().to_arrow(columns=["_file", "_pos"]).to_pylist()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", harness.HarnessWarning)  # files of a replaced table lack all columns
            trace = opened.trace("true")
        visible = [row.versions[-1].place for row in trace.rows if row.is_visible]
        assert sorted(visible) == sorted((each["_file"], each["_pos"]) for each in places)
        self.counted[f"{self.name} rows traced"] += len(visible)

    def sound(self) -> None:
        """Check that `harness check` has no findings in the reference's table."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", harness.HarnessWarning)
            report = harness.open_table(str(self.location)).check(level="data", all_snapshots=not self.reading.oldest)
        found = [each for each in report.findings if each.rule.severity is not Severity.NOTE]
        assert not found, found
        assert not report.unchecked, report.unchecked

    def compare(self, at: int | str | None, theirs: pa.Table, engines: Sequence[str] = ENGINES) -> None:
        """Check that every engine returns the rows and names of the reference."""
        opened = harness.open_table(str(self.location))
        columns = None if self.reading.select == "*" else theirs.schema.names
        for engine in engines:
            assert_same(theirs, opened.snapshot(at).to_arrow(columns=columns, engine=engine), f"{engine} at {at}")
            self.counted[f"{self.name} reads"] += 1

    def theirs(self, source: str) -> pa.Table:
        """Return the rows that the reference reads."""
        return self.with_texts(self.spark.sql(f"SELECT {self.reading.select} FROM {source}"))

    def with_texts(self, frame: Any) -> pa.Table:
        """Return the rows of a data frame, in which variants become the JSON text that harness returns."""
        from pyspark.sql.functions import to_json

        for path in self.reading.texts:
            top, _, rest = path.partition(".")
            if top in frame.columns:
                text = frame[top].withField(rest, to_json(frame[top][rest])) if rest else to_json(frame[top])
                frame = frame.withColumn(top, text)
        return frame.toArrow()

    def _with_table_name(self, statement: str) -> str:
        if "{now}" in statement:
            time.sleep(0.01)  # one tick of the clock, so that the last snapshot is older
        return statement.format(
            t=self.table,
            ref=self.table.removeprefix("ice."),
            source=f"delta.`{self.location}_source`",
            elsewhere=f"{self.location}_elsewhere",
            s=self.snapshots,
            now=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
        )


class IcebergWrittenTable(WrittenTable):
    """A table in the catalog `ice`, whose warehouse contains the directory of the namespace."""

    name = "Iceberg"

    @property
    def table(self) -> str:  # type: ignore[override]
        return f"ice.{self.location.parent.name}.{self.location.name}"

    handle = table  # type: ignore[assignment]

    def current(self) -> None:
        self.compare(None, self.theirs(self.table))
        self.snapshots += [found for found in self._live() if found not in self.snapshots]

    def every_point(self) -> None:
        """Compare every snapshot, branch, and tag, check that there are no others, and compare the snapshot at each
        logged time.
        """
        for snapshot in self._live():
            self.compare(snapshot, self.theirs(f"{self.table} VERSION AS OF {snapshot}"))
        java, opened = loaded(self.spark, self.table), harness.open_table(str(self.location))
        refs = {name: ref["snapshot_id"] for name, ref in opened.refs().items()}
        assert refs == {name: ref.snapshotId() for name, ref in dict(java.refs()).items()}
        for name in refs:
            self.compare(f"ref={name}", self.theirs(f"{self.table} VERSION AS OF '{name}'"))
        for entry in java.history():
            assert opened.snapshot(f"timestamp={entry.timestampMillis()}").id == entry.snapshotId()
        self.counted["Iceberg snapshots"] += len(self.snapshots)

    def _live(self) -> list[int]:
        """Return the snapshots that still exist, oldest first."""
        java = loaded(self.spark, self.table).snapshots()
        return [snapshot.snapshotId() for snapshot in sorted(java, key=lambda each: each.timestampMillis())]


class DeltaWrittenTable(WrittenTable):
    """A table by path.

    Reads by Spark happen at the end, and are compared with what Delta Lake read for each version.
    """

    name = "Delta"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.table, self.handle = f"delta.`{self.location}`", str(self.location)
        self.seen: dict[int | None, pa.Table] = {}

    def current(self) -> None:
        theirs = self.theirs(self.table)
        self.seen[harness.open_table(str(self.location)).snapshot().id] = theirs
        self.compare(None, theirs, ("duckdb", "oracle"))

    def every_point(self) -> None:
        """Compare every version by its number and by its time, and the change data feed."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.table}").selectExpr("version", "unix_millis(timestamp) AS ms")
        times = {row.version: row.ms for row in history.collect() if row.version >= self.reading.oldest}
        opened = harness.open_table(str(self.location))
        last = max(times)
        assert opened.snapshot().id == last
        for version, milliseconds in sorted(times.items()):
            theirs = self.seen.get(version)
            theirs = self.theirs(f"{self.table} VERSION AS OF {version}") if theirs is None else theirs
            self.compare(version, theirs)
            assert opened.snapshot(f"timestamp={milliseconds}").id == version
            self.counted["Delta versions"] += 1
        for first in range(last + 1) if self.reading.feed else ():
            self._compare_feed(first, last, ENGINES if first == 0 else ("duckdb",))

    def _compare_feed(self, first: int, last: int, engines: Sequence[str]) -> None:
        """Compare the change data feed of the versions `first` to `last`."""
        opened = harness.open_table(str(self.location))
        theirs = self.spark.sql(f"SELECT * FROM table_changes('{self.table}', {first}, {last})").toArrow()
        for engine in engines:
            read = opened.changes(first, last).to_arrow
            versions = {"from_": first, "to": last}
            rows = read_with_oracle(self.handle, changes=versions) if engine == "oracle" else read(engine=engine)
            assert_same(theirs, rows, f"changes from {first} on {engine}")
            self.counted["Delta reads of changes"] += 1


def assert_same(expected: pa.Table, rows: pa.Table, read: str) -> None:
    """Check that the rows of the reference and of harness are equal, ignoring the Arrow types of the values."""
    assert rows.schema.names == expected.schema.names, read
    theirs, _ = convert_types(expected, rows.schema)
    found = harness.compare(theirs, rows)
    assert (found.only_left, found.only_right) == (0, 0), f"{read}\n{found.to_text()}"


def loaded(spark: Any, table: str) -> Any:
    """Return the table as an object of Iceberg's own interface."""
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
