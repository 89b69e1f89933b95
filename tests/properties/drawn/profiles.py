"""Hypothesis profiles of the property tests, chosen by the environment variable HARNESS_PROFILE.

- `harness-quick` is what plain pytest runs: the same examples everywhere, so that a change is only ever blamed for what
  it broke, as with Hypothesis' own profile for CI.
- `harness-fresh` draws as many, or more where a property says so, from the seed that `--hypothesis-seed` gives: a suite
  that always draws the same always finds the same.
- `harness-round` draws twice as many, from a seed too. `programs/properties.py` runs it again and again until its
  time is over.
"""

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

QUICK: Final = "harness-quick"
FRESH: Final = "harness-fresh"
ROUND: Final = "harness-round"
VARIABLE: Final = "HARNESS_PROFILE"


def register() -> None:
    """Make the profiles known to Hypothesis. It changes no settings."""
    # Building a table takes as long as the machine needs; explaining a failure would build hundreds more.
    phases = [p for p in Phase if p is not Phase.explain]
    shared = {
        "deadline": None,
        "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        "phases": phases,
        "report_multiple_bugs": False,
        "print_blob": True,
    }
    settings.register_profile(QUICK, **shared, derandomize=True, database=None)  # type: ignore[arg-type]
    for name in (FRESH, ROUND):  # without a database, whose examples no seed gives again
        settings.register_profile(name, **shared, derandomize=False, database=None)  # type: ignore[arg-type]


def current_profile() -> str:
    """The profile that the environment asks for, by name: `harness-quick` unless HARNESS_PROFILE says otherwise."""
    return os.environ.get(VARIABLE, QUICK)


def property_settings(examples: int, *, fresh: int = 1) -> settings:
    """Settings of a property: the chosen profile's, with that many examples, or as many times more as it draws.

    examples: in the quick profile. fresh: how many times as many in the fresh one.
    """
    register()
    profile = settings.get_profile(current_profile())
    factor = {FRESH: fresh, ROUND: 2}.get(current_profile(), 1)
    return settings(profile, max_examples=examples * factor)
