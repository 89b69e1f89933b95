"""A third opinion on mutants with other rows on which DuckDB and the oracle agree: Spark reads them too."""

import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from fuzz_benches import Benches
from fuzz_mutants import applied, parsed
from fuzz_reading import ReadRows, Refusal, by_duckdb, by_spark


def is_agreed(names: Sequence[str], only: str | None) -> bool:
    """Return whether Spark returns the same rows for all these mutants, or refuses them, and print differences."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        benches = Benches(Path(place), SimpleNamespace(opened=None, sockets=0), lambda: None)
        for name in names:
            counts[_opinion(benches, name, only)] += 1
    print(f"Spark on {len(names)} mutants: {', '.join(f'{count} {opinion}' for opinion, count in counts.items())}")
    return not counts["other rows"]


def _opinion(benches: Benches, name: str, only: str | None) -> str:
    mutant, bench = benches.drawn(*parsed(name), only)
    subject = bench.subject
    with subject.changed(applied(mutant, subject.image)):
        rows, spark = by_duckdb(subject.address, mutant.read), by_spark(subject.address, mutant.read)
    match spark:
        case Refusal():
            return "refused"
        case ReadRows() if spark == rows:
            return "same rows"
        case _:
            print(f"SPARK: {name}, {subject.name}: {spark}\n    DuckDB: {rows}", flush=True)
            return "other rows"
