"""Who reads the tables of property tests, and where their failures are left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.testing.repro import reproducing


@pytest.fixture
def repro(request):
    """Wraps a property: a failure leaves a repro directory where --harness-repro says."""
    place = request.config.getoption("--harness-repro", None) or os.environ.get("HARNESS_REPRO")
    values = bool(request.config.getoption("--harness-repro-values", False))
    return lambda: reproducing(None if place is None else Path(place), values=values)
