"""Tables that a reference implementation writes, step by step, beside what harness reads of them.

Statements, and those of the histories in files, are formatted with the names of the table:

    {t}           the table, in SQL                     {ref}     the same, for Iceberg's procedures
    {source}      another table beside it               {elsewhere}   a directory beside it
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
"""A statement, several of them between which nothing is compared, or a call of the implementation's Java interface,
which is given the session, and the table's name in SQL; of Delta its directory."""


@dataclass(frozen=True, slots=True)
class WrittenReading:
    """The part of a table that is compared.

    select: in SQL, under harness's names. texts: columns of type variant, or fields of structs, which harness gives as
        the text of JSON.
    oldest: the first version whose files are still there. feed: the change data feed too.
    proof: glob patterns under the table's directory of files that the history is about.
    """

    select: str = "*"
    texts: tuple[str, ...] = ()
    oldest: int = 0
    feed: bool = False
    proof: tuple[str, ...] = ()


def histories(file: str, words: Mapping[str, str], calls: Mapping[str, Any]) -> dict[str, tuple[Step, ...]]:
    """The histories that a file tells, by name, in the form that `iceberg_histories.txt` says.

    words: texts for names in braces, beside those of the file. calls: functions and steps by the names that `!` calls.
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
    """A table of a reference writer. location: its directory, which is not there yet."""

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
        """Does all steps, and compares after each, then every point of the table's history."""
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
        self.sound()
        self.counted[f"{self.name} histories"] += 1

    def current(self) -> None:
        """The rows that are current."""
        raise AssertionError("of the format")

    def every_point(self) -> None:
        """Every point of the history that can still be read."""
        raise AssertionError("of the format")

    def sound(self) -> None:
        """`harness check` has nothing to say against what the reference wrote."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", harness.HarnessWarning)
            report = harness.open_table(str(self.location)).check(level="data", all_snapshots=not self.reading.oldest)
        found = [each for each in report.findings if each.rule.severity is not Severity.NOTE]
        assert not found, found
        assert not report.unchecked, report.unchecked

    def compare(self, at: int | str | None, theirs: pa.Table, engines: Sequence[str] = ENGINES) -> None:
        """Every engine gives the rows, and the names, of the reference."""
        opened = harness.open_table(str(self.location))
        columns = None if self.reading.select == "*" else theirs.schema.names
        for engine in engines:
            assert_same(theirs, opened.snapshot(at).to_arrow(columns=columns, engine=engine), f"{engine} at {at}")
            self.counted[f"{self.name} reads"] += 1

    def theirs(self, source: str) -> pa.Table:
        """The rows that the reference reads."""
        from pyspark.sql.functions import to_json

        frame = self.spark.sql(f"SELECT {self.reading.select} FROM {source}")
        for path in self.reading.texts:
            top, _, rest = path.partition(".")
            if top in frame.columns:
                text = frame[top].withField(rest, to_json(frame[top][rest])) if rest else to_json(frame[top])
                frame = frame.withColumn(top, text)
        return frame.toArrow()

    def _with_table_name(self, statement: str) -> str:
        if "{now}" in statement:
            time.sleep(0.01)  # a clock's tick, so that the last snapshot lies before
        return statement.format(
            t=self.table,
            ref=self.table.removeprefix("ice."),
            source=f"delta.`{self.location}_source`",
            elsewhere=f"{self.location}_elsewhere",
            s=self.snapshots,
            now=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
        )


class IcebergWrittenTable(WrittenTable):
    """A table in the catalog `ice`, over the directory above that of its namespace."""

    name = "Iceberg"

    @property
    def table(self) -> str:  # type: ignore[override]
        return f"ice.{self.location.parent.name}.{self.location.name}"

    handle = table  # type: ignore[assignment]

    def current(self) -> None:
        self.compare(None, self.theirs(self.table))
        self.snapshots += [found for found in self._live() if found not in self.snapshots]

    def every_point(self) -> None:
        """Every snapshot, branch and tag, that there are no others, and the snapshot of each moment of the log."""
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
        """The snapshots that it still has, oldest first."""
        java = loaded(self.spark, self.table).snapshots()
        return [snapshot.snapshotId() for snapshot in sorted(java, key=lambda each: each.timestampMillis())]


class DeltaWrittenTable(WrittenTable):
    """A table by its path. Reads by Spark wait for the end, beside what Delta Lake read of each version."""

    name = "Delta"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.table, self.handle = f"delta.`{self.location}`", str(self.location)
        self.seen: dict[int | None, pa.Table] = {}

    def current(self) -> None:
        theirs = self.theirs(self.table)
        self.seen[harness.open_table(str(self.location)).snapshot().id] = theirs
        self.compare(None, theirs, ("duckdb", "oracle"))

    def every_point(self) -> None:
        """Every version by its number and by its time, and the change data feed."""
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
        if self.reading.feed:
            feed = self.spark.read.format("delta").option("readChangeFeed", "true")
            theirs = feed.option("startingVersion", 0).option("endingVersion", last).load(self.handle).toArrow()
            for engine in ENGINES:
                read = opened.changes(0, last).to_arrow
                rows = read_with_oracle(self.handle, changes=(0, last)) if engine == "oracle" else read(engine=engine)
                assert_same(theirs, rows, f"changes on {engine}")
                self.counted["Delta reads of changes"] += 1


def assert_same(expected: pa.Table, rows: pa.Table, read: str) -> None:
    """The reference's rows and harness's are the same, whatever Arrow types carry the values."""
    assert rows.schema.names == expected.schema.names, read
    theirs, _ = convert_types(expected, rows.schema)
    found = harness.compare(theirs, rows)
    assert (found.only_left, found.only_right) == (0, 0), f"{read}\n{found.to_text()}"


def loaded(spark: Any, table: str) -> Any:
    """The table as Iceberg's own interface has it."""
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
