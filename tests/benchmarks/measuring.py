"""Taking turns: every contender runs once per round, so that a noisy moment hits all of them alike. Peaks of memory."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
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


@contextmanager
def peaks(spark: Any) -> Iterator[dict[str, int]]:
    """The most resident memory that this process and Spark's JVM had in the block, in bytes; filled in at its end.

    Empty where the system does not tell, which only Linux does.
    """
    numbers = {"Python": os.getpid(), "JVM": int(spark._jvm.java.lang.ProcessHandle.current().pid())}
    found: dict[str, int] = {}
    known = Path("/proc/self/clear_refs").exists()
    if known:
        for number in numbers.values():
            Path(f"/proc/{number}/clear_refs").write_text("5")  # the peak starts again
    yield found
    if known:
        for name, number in numbers.items():
            lines = Path(f"/proc/{number}/status").read_text().splitlines()
            (line,) = (line for line in lines if line.startswith("VmHWM:"))
            found[name] = int(line.split()[1]) * 1024
