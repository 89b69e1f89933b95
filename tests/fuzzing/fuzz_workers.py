"""Workers from outside: started, given tasks, listened to, and replaced when a mutant ends them."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz_judging import Kind, Verdict
from fuzz_limits import MOST_SECONDS
from fuzz_protocol import packed, plain
from fuzz_subjects import Changes, Read

_WALL_SECONDS = 4 * MOST_SECONDS
"""Until a worker says its next word. Machines are busy, and some time no processor's clock sees: waiting."""

_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutant and its verdict. told: the mutant as `fuzz_protocol.told` says it."""

    told: dict[str, Any]
    verdict: Verdict


class Worker:
    """One process whose children read, in a directory in memory. plant: see `fuzz_worker.serve`."""

    def __init__(self, plant: str | None = None) -> None:
        parent = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        self._place = Path(tempfile.mkdtemp(prefix="harness-fuzz-", dir=parent))
        command = [sys.executable, str(Path(__file__).with_name("fuzz_worker.py")), str(self._place)]
        self._process = subprocess.Popen(
            command if plant is None else [*command, plant],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._child: int | None = None
        self._heard = b""

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # the children too, whatever they do
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait()
        shutil.rmtree(self._place, ignore_errors=True)

    def group(self, target: str, seed: int, start: int, end: int, only: str | None) -> Iterator[Judged]:
        """The verdicts on some mutants of one group, whatever becomes of the processes that give them."""
        while start < end:
            for judged in self._judged("group", target, seed, start, end, only):
                yield judged
                start += 1

    def judge(self, subject: str, read: Read, changes: Changes) -> Verdict:
        """The verdict on a table with any changes."""
        (judged,) = self._judged("image", subject, plain(read), packed(changes))
        return judged.verdict

    def mutant(self, target: str, seed: int, number: int, only: str | None) -> list[Any]:
        """What `fuzz_worker.Worker.mutant` tells."""
        (answer,) = [words for words in self._answers("mutant", target, seed, number, only) if words[0] == "mutant"]
        return answer

    def _judged(self, *task: Any) -> Iterator[Judged]:
        """Verdicts until the task is done, or the child is dead; the last is then about what killed it."""
        told: Any = None
        for word, *rest in self._answers(*task):
            match word, rest:
                case "begin", [_, told]:
                    pass
                case "verdict", [kind, detail, signature]:
                    yield Judged(told, Verdict(Kind[kind], detail, signature))
                case "died", ["judging", _, _]:
                    yield Judged(told, Verdict(Kind.UNJUDGED))
                case "died", ["begin", killer, said]:
                    yield Judged(told, _death(killer, said))

    def _answers(self, *task: Any) -> Iterator[list[Any]]:
        """What is said of a task. Its last word is `done`, or `died` with the last word before."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task).encode() + b"\n")
        last = "start"
        while last != "done":
            match self._next():
                case ["child", child]:
                    self._child = child
                case ["died", killer, said] if last in ("begin", "judging"):
                    yield ["died", last, killer, said]
                    return
                case ["died", killer, said]:
                    raise RuntimeError(f"a worker died before a mutant began: {killer} {said}")
                case words:
                    last = words[0]
                    yield words

    def _next(self) -> list[Any]:
        """The next words; a child that has none for too long is ended."""
        assert self._process.stdout is not None
        while b"\n" not in self._heard:
            with selectors.DefaultSelector() as ready:
                ready.register(self._process.stdout, selectors.EVENT_READ)
                if not ready.select(_WALL_SECONDS) and self._child is not None:
                    os.kill(self._child, signal.SIGXCPU)
            more = os.read(self._process.stdout.fileno(), 1 << 16)
            if not more:
                raise RuntimeError("a worker ended by itself")
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return list(json.loads(line))


def _death(killer: str, said: str) -> Verdict:
    frames = [line.strip() for line in said.splitlines() if "/harness/" in line]
    place = frames[0].rpartition("/harness/")[2] if frames else "nowhere in harness"
    kind = Kind.TIME if killer == "SIGXCPU" else Kind.MEMORY if "bad_alloc" in said else Kind.CRASH
    words = " ".join(line.strip() for line in said.splitlines()[:3])
    return Verdict(kind, f"{killer} at {place}: {words}"[:400], f"{killer} {place}")
