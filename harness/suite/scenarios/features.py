"""The features that a scenario can declare, each with its meaning and its proof.

If a scenario declares `equality-delete` and its plans contain no equality delete, it tests nothing. The runner rejects
it.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.suite.scenarios.delta.features import DELTA_FEATURES
from harness.suite.scenarios.evidence import Evidence, Feature
from harness.suite.scenarios.iceberg.features import ICEBERG_FEATURES

_BY_FORMAT: Mapping[str, Mapping[str, Feature]] = {"iceberg": ICEBERG_FEATURES, "delta": DELTA_FEATURES}


def features_of(table_format: str) -> Mapping[str, Feature]:
    """Return the features by name that tables of a format can have."""
    return _BY_FORMAT[table_format]


def missing_features(evidence: Evidence) -> tuple[str, ...]:
    """Return the features that a scenario declares and that do not occur."""
    scenario = evidence.built.scenario
    features = features_of(scenario.format)
    return tuple(name for name in scenario.features if not features[name].proof(evidence))


MEANINGS = {name: feature.meaning for known in (DELTA_FEATURES, ICEBERG_FEATURES) for name, feature in known.items()}
"""The meaning of every feature by name."""
