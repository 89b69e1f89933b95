"""Read tables in a real session of Spark Connect. It needs its own process: a process has sessions of one kind only.

    python reading_on_connect.py REQUEST.json

The request is a list of `{location, columns, where, reader, changes}`. Each answer is a line of JSON with the number of
rows if DuckDB returns the same rows, or with the error.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def main(requests: list[dict[str, Any]]) -> None:
    """Answer all requests.

    The process exits without stopping the session, because that would wait for its server forever.
    """
    from pyspark.sql import SparkSession

    from harness.engines.spark.connect import reader_of

    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.pyspark.python": sys.executable,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Duser.timezone=UTC",
    }
    builder = SparkSession.builder.remote("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    reader = type(reader_of(session)).__name__
    say({"session": f"{type(session).__module__}.{type(session).__name__}", "reader": reader})
    for request in requests:
        try:
            say(answer(request, session))
        except Exception as error:  # the calling test shows the error
            say({"error": type(error).__name__, "message": str(error)[:2000]})
    say({"settings": session.conf.get("spark.sql.caseSensitive")})


def answer(request: dict[str, Any], session: Any) -> dict[str, Any]:
    """Return how many rows both engines return, through `to_spark` and at once."""
    from as_compared import comparable
    from lifetimes import planned_range

    import harness
    from harness.engines.spark import engine
    from harness.engines.spark.connect import PlainPaths, reader_of
    from harness.engines.spark.engine import conform
    from harness.snapshot import PlannedRows

    how = {"columns": request.get("columns"), "where": request.get("where")}
    for name, value in request.get("settings", {}).items():
        session.conf.set(name, value)
    try:
        engine.reader_of = PlainPaths if request.get("reader") == "PlainPaths" else reader_of  # type: ignore[assignment]
        if "changes" in request:
            plan = planned_range(request["location"], request["changes"])
            rows, other = engine.to_arrow(plan, session), PlannedRows(plan).to_arrow()
            assert rows.schema == other.schema
            assert comparable(rows) == comparable(other), (comparable(rows), comparable(other))
            return {"rows": rows.num_rows}
        snapshot = harness.open_table(request["location"]).snapshot()
        rows, other = engine.to_arrow(snapshot.plan(**how), session), snapshot.to_arrow(**how)
        assert rows.schema == other.schema
        assert comparable(rows) == comparable(other), (comparable(rows), comparable(other))
        if other.num_columns:
            lazy = snapshot.to_spark(session, **how)
            assert comparable(conform(lazy.toArrow(), other.schema)) == comparable(other)
            assert lazy.count() == other.num_rows
        if request.get("compare"):
            compared = harness.compare(snapshot, snapshot.to_spark(session))
            assert compared.equal, str(compared)
        return {"rows": rows.num_rows}
    finally:
        for name in request.get("settings", {}):
            session.conf.unset(name)


def say(what: dict[str, Any]) -> None:
    """Print one line of the answer."""
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    # Without a network, gRPC would use the proxy of the environment even for the loopback address.
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "no_proxy": "*"})
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    os._exit(0)
