"""The worker: `python -m harness.untrusted.worker`, which `harness.untrusted.launching` starts.

It reads one JSON object from its standard input, confines itself, reports this, and does the work that the object
names. Its standard output is the result, and its exit code says which kind of result it is.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from harness.storage.limits import Confinement, confine
from harness.untrusted import confining
from harness.untrusted.bounds import Bounds

UNENFORCED, _BROKEN = 3, 4
"""Exit codes: a limit that is not waived cannot be enforced here (the output is a JSON object of reasons); a crash."""
DONE = 10
"""The exit code of work that returned 0, to which other codes are added.

A Python that fails to start returns 1 or 2.
"""

_state = {"confined": False}


def is_confined() -> bool:
    """Return whether this process is a worker in which all required limits are set."""
    return _state["confined"]


def main() -> int:
    """Set the limits, do the requested work, and return the exit code of the process."""
    request = json.loads(sys.stdin.buffer.readline())
    bounds = Bounds(**request["bounds"])
    unenforced, listener = confining.before_imports(
        *(request[name] for name in ("parent", "directories", "scratch", "calls"))
    )
    # The parent takes the filter's listener, if it can, before it answers.
    sys.stdout.write("-\n" if listener is None else f"{listener}\n")
    sys.stdout.flush()
    sys.stdin.buffer.readline()
    sys.stdin.close()
    if listener is not None:
        os.close(listener)
    module, _, name = request["work"].partition(":")
    work: Callable[[Any, BinaryIO], int] = getattr(importlib.import_module(module), name)
    for library in request["libraries"]:
        importlib.import_module(library)
    confine(
        Confinement(
            directories=(*request["directories"], request["scratch"]),
            memory_bytes=bounds.memory_bytes // 2,
            scratch=request["scratch"],
            scratch_bytes=bounds.scratch_bytes,
        )
    )
    unenforced |= confining.after_imports(bounds, filtered="processes" not in unenforced)
    lacking = {limit: why for limit, why in unenforced.items() if limit not in request["waived"]}
    if lacking:
        sys.stdout.write(json.dumps(lacking))
        return UNENFORCED
    _state["confined"] = True
    return DONE + work(request["request"], sys.stdout.buffer)


def check_limits(request: object, output: BinaryIO) -> int:
    """Do nothing, successfully. This work is requested to test whether the limits can be enforced on this system."""
    return 0


if __name__ == "__main__":
    code = _BROKEN
    try:
        # This module is `__main__` here; `is_confined` reads the module that others import.
        code = importlib.import_module("harness.untrusted.worker").main()
        sys.stdout.flush()
    except BaseException:
        code = _BROKEN
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)  # nothing needs cleanup, and threads may hang
