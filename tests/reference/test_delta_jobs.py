"""Jobs beside Delta's own jar, and in the session that has it alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reference_jobs import check_reads_and_writes, registered, rows_of_a_job_in_a_session_of

pytestmark = pytest.mark.reference


def test_names_of_the_jar_stay_its_own(delta_spark: Any, tmp_path: Path) -> None:
    delta_spark.sql(f"CREATE TABLE own (id bigint) USING delta LOCATION '{tmp_path}/own'")
    delta_spark.sql("INSERT INTO own VALUES (7)")
    job = registered(delta_spark, tmp_path)
    try:
        assert not {key for key in job.settings if key.endswith((".delta", "spark_catalog"))}
        assert "the Delta jar of this session answers them" in job.missing[0]
        check_reads_and_writes(job, tmp_path, "own")
        (newest, *_) = delta_spark.sql("DESCRIBE HISTORY own").collect()
        assert newest.operation == "MERGE"
    finally:
        job.close()
        delta_spark.sql("DROP TABLE own")


@pytest.mark.nightly
def test_a_session_with_the_jar_alone(tmp_path: Path) -> None:
    assert rows_of_a_job_in_a_session_of("delta", tmp_path) == [[1, 11], [2, 99]]
