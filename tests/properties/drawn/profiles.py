"""Hypothesis profiles of the property tests, selected by the environment variable HARNESS_PROFILE.

- `harness-quick` is used by plain pytest. It draws the same examples everywhere, so that a change only fails for what
  it broke, like Hypothesis' own profile for CI.
- `harness-fresh` draws the same number of examples, or more if a property requests them, from the seed in
  `--hypothesis-seed`. Different examples find different faults.
- `harness-round` draws twice as many examples, also from a seed. `programs/properties.py` repeats it until its time is
  over.
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
    for name in (FRESH, ROUND):  # without a database, because its examples cannot be reproduced from a seed
        settings.register_profile(name, **shared, derandomize=False, database=None)  # type: ignore[arg-type]


def current_profile() -> str:
    """Return the name of the profile that HARNESS_PROFILE selects, by default `harness-quick`."""
    return os.environ.get(VARIABLE, QUICK)


def property_settings(examples: int, *, fresh: int = 1) -> settings:
    """Return the settings of a property in the current profile.

    Args:
        examples: The number of examples in the quick profile.
        fresh: The factor by which the fresh profile increases the number.
    """
    register()
    profile = settings.get_profile(current_profile())
    factor = {FRESH: fresh, ROUND: 2}.get(current_profile(), 1)
    return settings(profile, max_examples=examples * factor)
