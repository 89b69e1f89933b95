"""The process of one reader: `bench_answering.py PEER TASK`, with arguments as a line of JSON on standard input.

It runs in the reader's interpreter, so it imports only the standard library and the peer's module in `peers/`. A task
is a function of that module. It takes the arguments and returns the function to time, which returns a list of integers,
or None if there is no comparable answer. The function is called once for each further line on standard input, and a
line of JSON reports the cost. Output of the reader goes to standard error.
"""

import importlib
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def main(peer: str, task: str) -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path(__file__).with_name("peers")))
    try:
        module = importlib.import_module(f"peer_{peer}")
        arguments = json.loads(sys.stdin.readline())
        if task == "versions":
            answers.write(json.dumps({"versions": module.versions(**arguments)}) + "\n")
            return
        run = getattr(module, task)(**arguments)
        others = getattr(module, "other_processes", list)()
        for _ in sys.stdin:
            answers.write(json.dumps(_turn(run, others)) + "\n")
            answers.flush()
    except Exception as error:
        # Every exception of a reader is reported as its result.
        answers.write(json.dumps({"failed": " ".join(f"{type(error).__name__}: {error}".split())[:200]}) + "\n")
    finally:
        answers.flush()


def _turn(run: Any, others: list[int]) -> dict[str, Any]:
    processes = ["self", *map(str, others)]
    for process in processes:
        _forget_peak(process)
    cpu, wall = time.process_time() + sum(map(_cpu_seconds, others)), time.perf_counter()
    answer = run()
    wall = time.perf_counter() - wall
    cpu = time.process_time() + sum(map(_cpu_seconds, others)) - cpu
    peaks = [_peak_mib(process) for process in processes]
    peak = None if None in peaks else sum(filter(None, peaks))
    return {"answer": answer, "wall_s": wall, "cpu_s": cpu, "peak_mib": peak}


def _forget_peak(process: str) -> None:
    """Reset the peak of resident memory, if the system supports that."""
    try:
        Path(f"/proc/{process}/clear_refs").write_text("5")
    except OSError:
        return


def _peak_mib(process: str) -> float | None:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return None
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def _cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process that a reader started, for example a JVM."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    main(*sys.argv[1:])
