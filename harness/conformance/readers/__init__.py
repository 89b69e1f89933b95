"""Other projects' readers, each a script that `harness.conformance.worker` serves in an interpreter that has it."""

from __future__ import annotations

from collections.abc import Mapping

from harness.conformance.workers import WorkerScript

READERS: Mapping[str, WorkerScript] = {}
"""By name of the engine."""
