"""What became slower between two runs, by more than the noise of either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench_records import Failed, Measured, Outcome, Record

OURS = "harness"
"""Readers whose names begin so are the project's; the others are measured beside them, and not held against it."""

LEAST = 1.1
"""Ratios that differ by less are alike, however steady they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One reader's figure in two runs. text: both, for a person. bad: slower, failed, or no longer measured."""

    kind: Literal["slower", "faster", "failed", "missing"]
    text: str

    @property
    def bad(self) -> bool:
        """Whether it is a step back."""
        return self.kind != "faster"


def differences(now: Sequence[Record], then: Sequence[Record]) -> list[Difference]:
    """How the project's figures differ, in the order of `then`; what is only in `now` is no difference.

    A ratio differs if the middle halves of both runs' rounds do not meet and the medians are `LEAST` apart.
    """
    present = {record.figure: record for record in now}
    found = []
    for record in then:
        there = present.get(record.figure)
        for name, before in record.outcomes.items():
            if not name.startswith(OURS) or isinstance(before, Failed):
                continue
            after = None if there is None else there.outcomes.get(name)
            difference = _difference(f"{record.group}, {record.title}, {name}", before, after)
            if difference is not None:
                found.append(difference)
    return found


def _difference(what: str, before: Measured, after: Outcome | None) -> Difference | None:
    match after:
        case None:
            return Difference(kind="missing", text=f"{what}: {_shown(before)} is no longer measured")
        case Failed(reason=reason):
            return Difference(kind="failed", text=f"{what}: {_shown(before)}, now it fails: {reason}")
    text = f"{what}: {_shown(before)}, now {_shown(after)}"
    if after.ratio_low > before.ratio_high and after.ratio > before.ratio * LEAST:
        return Difference(kind="slower", text=text)
    if after.ratio_high < before.ratio_low and after.ratio * LEAST < before.ratio:
        return Difference(kind="faster", text=text)
    return None


def _shown(figure: Measured) -> str:
    return f"{figure.ratio:.3g} ({figure.ratio_low:.3g} to {figure.ratio_high:.3g}) times the floor"


def changed_floors(now: Sequence[Record], then: Sequence[Record]) -> list[str]:
    """The floors whose versions differ, a line each: ratios to them say less."""
    before = {record.figure: record.outcomes[record.floor].versions for record in then}
    pairs = {
        (record.floor, before[record.figure], record.outcomes[record.floor].versions)
        for record in now
        if record.figure in before
    }
    return [f"{floor}: {old}, now {new}" for floor, old, new in sorted(pairs) if old != new]


def report(now: Sequence[Record], then: Sequence[Record]) -> str:
    """Both runs compared, as text for a person."""
    if not now or not then:
        return f"Nothing to compare: there is no {'run' if not now else 'such earlier run'} at this scale."
    this, that = now[0].run, then[0].run
    lines = [f"{this.commit} of {this.date} against {that.commit} of {that.date}"]
    if (this.cores, this.system) != (that.cores, that.system):
        lines.append(f"another machine: {that.system}, {that.cores} cores; now {this.system}, {this.cores} cores")
    lines += [f"another floor: {text}" for text in changed_floors(now, then)]
    found = differences(now, then)
    lines += [f"{found_.kind}: {found_.text}" for found_ in found]
    if not any(found_.bad for found_ in found):
        lines.append("nothing became slower by more than the noise")
    return "\n".join(lines)
