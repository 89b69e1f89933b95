"""Jobs beside Iceberg's own jar, and in the session that has it alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reference_jobs import check_reads_and_writes, registered, rows_of_a_job_in_a_session_of

pytestmark = pytest.mark.reference


def test_names_of_the_jar_stay_its_own(iceberg_spark: Any, tmp_path: Path) -> None:
    iceberg_spark.sql("CREATE TABLE ice.own (id bigint) USING iceberg")
    iceberg_spark.sql("INSERT INTO ice.own VALUES (7)")
    before = iceberg_spark.conf.get("spark.sql.catalog.ice")
    job = registered(iceberg_spark, tmp_path)
    try:
        assert not {key for key in job.settings if "iceberg" in key or key.endswith(".ice")}
        assert iceberg_spark.conf.get("spark.sql.catalog.ice") == before
        check_reads_and_writes(job, tmp_path, "ice.own")
    finally:
        job.close()


@pytest.mark.nightly
def test_a_session_with_the_jar_alone(tmp_path: Path) -> None:
    assert rows_of_a_job_in_a_session_of("iceberg", tmp_path) == [[1, 11], [2, 99]]
