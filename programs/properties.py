"""Run the property tests repeatedly with new examples until a time is over: `green for an hour with seed 3: N
examples`.
    python programs/properties.py --minutes 60 --seed 3 [argument of pytest ...]

Every round runs all properties in the profile `harness-round`, with a seed that is derived from the given one, so the
same seed draws the same rounds. A failing property is left out of later rounds; its output and a command that
reproduces it are printed. Tests that draw nothing run in every round. At the end, the program prints the number of
examples of each property, and exits with 1 if one failed.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
ROUNDS = 1_000_000


@dataclass(slots=True)
class ExampleTally:
    """The result of one property: the number of examples and rounds, and the seed of the round that failed."""

    examples: int = 0
    rounds: int = 0
    failed: int | None = None


@dataclass(slots=True)
class Loop:
    """The rounds of one seed.

    Attributes:
        arguments: Further arguments for pytest.
        tallies: The results by test id.
    """

    seed: int
    arguments: list[str]
    tallies: dict[str, ExampleTally] = field(default_factory=dict)

    def run(self, minutes: float) -> None:
        """Run rounds until the time is over. The last round is completed."""
        end = time.monotonic() + 60 * minutes
        number = 0
        while number == 0 or time.monotonic() < end:
            if number and all(tally.failed is not None for tally in self.tallies.values()):
                return
            self.round(self.seed * ROUNDS + number)
            number += 1
            ran = sum(tally.examples for tally in self.tallies.values())
            print(f"round {number}, {ran} examples so far, {len(self.failures())} properties failed", flush=True)

    def round(self, seed: int) -> None:
        """Run all properties that have not failed yet."""
        left_out = [f"--deselect={test}" for test in self.failures() if self.tallies[test].examples]
        with tempfile.TemporaryDirectory() as place:
            report = Path(place, "report.xml")
            command = [*_command(seed), f"--junitxml={report}", "tests/properties", *left_out, *self.arguments]
            environment = {"HARNESS_REPRO": str(ROOT / "build/repro"), **os.environ, "HARNESS_PROFILE": "harness-round"}
            ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            if ran.returncode not in (0, 1) or not report.is_file():
                sys.exit(f"pytest failed with {ran.returncode}: {ran.stdout}{ran.stderr}")
            failed = self._count(report, seed)
        if failed:
            print(ran.stdout)
            again = f"HARNESS_PROFILE=harness-round python {' '.join(_command(seed)[1:])}"
            for test in failed:
                print(f"again: {again} '{test}'", flush=True)

    def failures(self) -> list[str]:
        """Return the test ids of the properties that failed."""
        return [test for test, tally in self.tallies.items() if tally.failed is not None]

    def _count(self, report: Path, seed: int) -> list[str]:
        failed = []
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            test = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            tally = self.tallies.setdefault(test, ExampleTally())
            tally.rounds += 1
            properties = {p.get("name"): p.get("value", "") for p in case.iter("property")}
            tally.examples += int(properties.get("examples", 0))
            if tally.failed is None and (case.find("failure") is not None or case.find("error") is not None):
                tally.failed = seed
                failed.append(test)
        return failed


def _command(seed: int) -> list[str]:
    options = ["-n0", "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}"]
    return [sys.executable, "-m", "pytest", *options]


def main() -> int:
    """Run the program and return the exit code: 1 if a property failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60, help="no round begins after them (60)")
    parser.add_argument("--seed", type=int, default=random.randrange(1000), help="what the rounds are drawn from (any)")
    options, arguments = parser.parse_known_args()
    loop = Loop(options.seed, arguments)
    print(f"again: python programs/properties.py --minutes {options.minutes:g} --seed {options.seed}", flush=True)
    began = time.monotonic()
    try:
        loop.run(options.minutes)
    except KeyboardInterrupt:
        print("interrupted")
    for test, tally in sorted(loop.tallies.items()):
        outcome = "passed" if tally.failed is None else f"FAILED with seed {tally.failed}"
        print(f"{tally.examples:8} examples in {tally.rounds} rounds, {outcome}: {test}")
    whole = sum(tally.examples for tally in loop.tallies.values())
    minutes = (time.monotonic() - began) / 60
    state = "red" if loop.failures() else "green"
    print(f"{state} for {minutes:.0f} minutes with seed {options.seed}: {whole} examples")
    return 1 if loop.failures() else 0


if __name__ == "__main__":
    sys.exit(main())
