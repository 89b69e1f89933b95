"""The start of the `harness` command, as a script and as `python -m harness`.

Until the command begins, there is nothing to clean up: Ctrl-C ends the process at once. So this is arranged before
anything else is imported. The module `signal` takes 4 ms to import, in which Ctrl-C would still be a traceback. The
module `_signal`, on which it is built, takes none.
"""

import _signal  # type: ignore[import-not-found]
import os
import sys


def _end(_number: object, _frame: object) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(130)


if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _end)


def main() -> int:
    """Run the command of the process and return the exit code."""
    from harness.cli import main as run

    return run(replaced=_end)


if __name__ == "__main__":
    sys.exit(main())
