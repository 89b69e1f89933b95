"""Results of a run: samples are summarized as figures, and figures are stored as lines of JSON in the history."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

FORMAT = 2
"""The format of the lines. Increase it for changes that readers of the history must know."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One turn of a reader: wall seconds, CPU seconds of all its threads, and peak resident memory (None: unknown)."""

    wall_s: float
    cpu_s: float
    peak_mib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A reader's medians, and its wall time divided by the floor's in the same round: lower quartile, median, upper
    quartile.
    """

    versions: str
    rounds: int
    wall_s: float
    cpu_s: float
    peak_mib: float | None
    ratio_low: float
    ratio: float
    ratio_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedMeasurement:
    """A reader that failed or returned a wrong answer, with the reason in one line."""

    versions: str
    reason: str


Outcome: TypeAlias = Measurement | FailedMeasurement


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun:
    """The time and environment of figures that were measured together.

    Attributes:
        date: The start in UTC, in ISO 8601. It identifies the run.
        commit: The commit, with `+` if the package had uncommitted changes.
    """

    date: str
    commit: str
    scale: str
    cores: int
    system: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One figure of one run. `outcomes` are by reader; the first is the floor, which ratios refer to."""

    run: BenchRun
    group: str
    figure: str
    title: str
    outcomes: Mapping[str, Outcome]

    @property
    def floor(self) -> str:
        """The name of the floor."""
        return next(iter(self.outcomes))


def summarize(samples: Sequence[Sample], floor: Sequence[Sample], versions: str) -> Measurement:
    """Return the figures of one reader. `samples` and `floor` are from the same rounds, in order."""
    peaks = [sample.peak_mib for sample in samples if sample.peak_mib is not None]
    low, middle, high = _quartiles([mine.wall_s / floors.wall_s for mine, floors in zip(samples, floor, strict=True)])
    return Measurement(
        versions=versions,
        rounds=len(samples),
        wall_s=_short(statistics.median(sample.wall_s for sample in samples)),
        cpu_s=_short(statistics.median(sample.cpu_s for sample in samples)),
        peak_mib=round(statistics.median(peaks)) if peaks else None,
        ratio_low=_short(low),
        ratio=_short(middle),
        ratio_high=_short(high),
    )


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _short(value: float) -> float:
    """Round to four digits: more would not be significant."""
    return float(f"{value:.4g}")


def to_line(record: Record) -> str:
    """Return the record as a line of JSON, without a line feed."""
    outcomes = {name: asdict(outcome) for name, outcome in record.outcomes.items()}
    figure_fields = {"group": record.group, "figure": record.figure, "title": record.title, "outcomes": outcomes}
    return json.dumps({"format": FORMAT, "kind": "bench figure", **asdict(record.run), **figure_fields})


def from_line(line: str) -> Record:
    """Return the record in a line.

    Raises:
        ValueError: The line has another format.
    """
    fields = json.loads(line)
    if fields.get("format") != FORMAT:
        raise ValueError(f"Cannot read a line of the history: its format is {fields.get('format')!r}, not {FORMAT}")
    outcomes = {
        name: FailedMeasurement(**outcome) if "reason" in outcome else Measurement(**outcome)
        for name, outcome in fields["outcomes"].items()
    }
    run = BenchRun(**{name: fields[name] for name in BenchRun.__dataclass_fields__})
    return Record(run=run, group=fields["group"], figure=fields["figure"], title=fields["title"], outcomes=outcomes)


def from_lines(text: str) -> list[Record]:
    """Return the records of a history in order. Empty lines are ignored."""
    return [from_line(line) for line in text.splitlines() if line.strip()]


def newest_run(records: Iterable[Record], scale: str, *, before: str | None = None, commit: str = "") -> list[Record]:
    """Return the records of the newest run of a scale, or an empty list.

    Args:
        records: The history.
        scale: The name of the scale.
        before: The date of a later run. None for no restriction.
        commit: The beginning of the run's commit.
    """
    runs = [r for r in records if r.run.scale == scale and r.run.commit.startswith(commit)]
    runs = [record for record in runs if before is None or record.run.date < before]
    newest = max((record.run.date for record in runs), default=None)
    return [record for record in runs if record.run.date == newest]
