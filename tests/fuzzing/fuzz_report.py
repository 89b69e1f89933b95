"""What a run of the fuzzer counted: mutants per target and verdict, and each finding once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fuzz_judging import Kind, Verdict
from fuzz_workers import Judged


@dataclass(slots=True)
class Tally:
    """counts: by target and verdict. findings: by signature, how often."""

    counts: dict[str, Counter[Kind]] = field(default_factory=dict)
    findings: Counter[str] = field(default_factory=Counter)

    def add(self, target: str, judged: Judged) -> bool:
        """Count a verdict; whether it is a finding that is new."""
        self.counts.setdefault(target, Counter())[judged.verdict.kind] += 1
        if not judged.verdict.kind.is_finding:
            return False
        signature = distinct(judged)
        self.findings[signature] += 1
        return self.findings[signature] == 1

    def total(self) -> int:
        """How many mutants."""
        return sum(counts.total() for counts in self.counts.values())

    def table(self) -> str:
        """The counts, a line for each target."""
        kinds = [kind for kind in Kind if any(counts[kind] for counts in self.counts.values())]
        lines = [["target", "mutants", *(kind.value for kind in kinds)]]
        for target, counts in sorted(self.counts.items()):
            lines.append([target, str(counts.total()), *(str(counts[kind]) for kind in kinds)])
        whole = sum(self.counts.values(), Counter())
        lines.append(["all", str(whole.total()), *(str(whole[kind]) for kind in kinds)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(text.rjust(w) for text, w in zip(line, widths, strict=True)) for line in lines)


def distinct(judged: Judged) -> str:
    """What tells two findings apart: the fault as the verdict says it; of wrong rows, what was done to which table."""
    signature = judged.verdict.signature
    if judged.verdict.kind not in (Kind.WRONG, Kind.DISPUTED):
        return signature
    done = sorted({mutation.partition(" of ")[0] for mutation in judged.told["mutations"]})
    return f"{signature} {judged.told['subject']} {' '.join(done)}"


def line(judged: Judged) -> str:
    """A finding in two lines."""
    verdict: Verdict = judged.verdict
    where = f"{judged.told['name']}, {judged.told['subject']}, {'; '.join(judged.told['mutations'])}"
    return f"{verdict.kind.value}: {where}\n    {verdict.detail[:700]}"
