"""The features that a scenario can declare, each with its meaning and its proof.

A scenario that says `equality-delete` and whose plans hold no equality delete tests nothing; the runner refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.testing.scenarios.delta.features import DELTA_FEATURES
from harness.testing.scenarios.evidence import Evidence, Feature, Proof
from harness.testing.scenarios.iceberg.features import ICEBERG_FEATURES

_BY_FORMAT: Mapping[str, Mapping[str, Feature]] = {"iceberg": ICEBERG_FEATURES, "delta": DELTA_FEATURES}


def features_of(table_format: str) -> Mapping[str, Feature]:
    """The features by name that tables of a format can have."""
    return _BY_FORMAT[table_format]


def missing_features(evidence: Evidence) -> tuple[str, ...]:
    """The features that a scenario declares and that do not occur."""
    return tuple(n for n in evidence.built.scenario.features if not FEATURES[n].proof(evidence))


def _by_format(name: str) -> Proof:
    def proof(evidence: Evidence) -> bool:
        return _BY_FORMAT[evidence.built.scenario.format][name].proof(evidence)

    return proof


FEATURES: Mapping[str, Feature] = {
    name: Feature(feature.meaning, _by_format(name))
    for features in (DELTA_FEATURES, ICEBERG_FEATURES)
    for name, feature in features.items()
}
"""Every feature by name; the proof of one that both formats have is that of the scenario's format."""
