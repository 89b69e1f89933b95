"""`python -m harness`, the same as the `harness` command."""

import sys

try:
    from harness.cli import main

    code = main()
except KeyboardInterrupt:  # while what listens for it was imported
    sys.stderr.write("interrupted\n")
    code = 130
    exec("")  # else Python may end itself by the signal, see `harness.cli.main`
sys.exit(code)
