"""Taking turns: every contender runs once per round, so that a noisy moment hits all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any


def medians(contenders: Mapping[str, Callable[[], Any]], *, rounds: int) -> dict[str, float]:
    """Median seconds by contender over `rounds` runs each, taken in turns after one run that does not count."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds + 1):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            if round_:
                taken[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in taken.items()}
