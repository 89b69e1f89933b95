"""What a run found: samples become figures, and figures lines of JSON, of which the history is made."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

FORMAT = 2
"""Of the lines. A change that readers of it must know gets the next number."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One turn of one reader: wall seconds, CPU seconds of all its threads, peak of resident memory (None: unknown)."""

    wall_s: float
    cpu_s: float
    peak_mib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A reader's medians, and its wall time over that of the floor in the same round: lower quartile, median, upper."""

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
    """A reader that gave an error or the wrong answer: the reason, in a line."""

    versions: str
    reason: str


Outcome: TypeAlias = Measurement | FailedMeasurement


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun:
    """When and on what figures were measured together.

    date: the start in UTC, ISO 8601; it tells runs apart. commit: of the repository, with `+` where the package had
    changes that were not committed.
    """

    date: str
    commit: str
    scale: str
    cores: int
    system: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One figure of one run. outcomes: by reader; the first is the floor, to which ratios are taken."""

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
    """The figures of one reader; `samples` and `floor` are of the same rounds, in order."""
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
    """Four digits: more would say that they mean something."""
    return float(f"{value:.4g}")


def to_line(record: Record) -> str:
    """The record as a line of JSON, without its end."""
    outcomes = {name: asdict(outcome) for name, outcome in record.outcomes.items()}
    named = {"group": record.group, "figure": record.figure, "title": record.title, "outcomes": outcomes}
    return json.dumps({"format": FORMAT, "kind": "bench figure", **asdict(record.run), **named})


def from_line(line: str) -> Record:
    """The record of a line.

    Raises:
        ValueError: the line has another format.
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
    """The records of a history, in its order; empty lines are passed over."""
    return [from_line(line) for line in text.splitlines() if line.strip()]


def newest_run(records: Iterable[Record], scale: str, *, before: str | None = None, commit: str = "") -> list[Record]:
    """The records of the newest run of this scale; none where there is no such run.

    before: the date of a run that began later. commit: how the commit of the run begins.
    """
    runs = [r for r in records if r.run.scale == scale and r.run.commit.startswith(commit)]
    runs = [record for record in runs if before is None or record.run.date < before]
    newest = max((record.run.date for record in runs), default=None)
    return [record for record in runs if record.run.date == newest]
