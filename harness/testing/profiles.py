"""Hypothesis profiles of the property tests.

`harness-quick` is what plain pytest runs: the same examples everywhere, so that a change is only ever blamed for what
it broke, as with Hypothesis' own profile for CI. `harness-nightly`, chosen by the environment variable HARNESS_PROFILE,
draws thousands of examples, anew each night.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

QUICK: Final = "harness-quick"
NIGHTLY: Final = "harness-nightly"
VARIABLE: Final = "HARNESS_PROFILE"
_NIGHTLY_FACTOR: Final = 60


def register() -> None:
    """Make both profiles known to Hypothesis. It changes no settings."""
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
    settings.register_profile(NIGHTLY, **shared, derandomize=False)  # type: ignore[arg-type]


def chosen() -> str:
    """The profile that the environment asks for, by name: `harness-quick` unless HARNESS_PROFILE says otherwise."""
    return os.environ.get(VARIABLE, QUICK)


def property_settings(examples: int, *, steps: int = 6) -> settings:
    """Settings of a property: the chosen profile's, with that many examples; many more at night.

    examples: in the quick profile. steps: of a state machine, at most.
    """
    register()
    profile = settings.get_profile(chosen())
    night = chosen() == NIGHTLY
    factor, longer = (_NIGHTLY_FACTOR, 2) if night else (1, 1)
    return settings(profile, max_examples=examples * factor, stateful_step_count=steps * longer)
