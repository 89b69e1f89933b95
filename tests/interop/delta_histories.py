"""Histories written by Delta Lake, from `delta_histories.txt`."""

from pathlib import Path
from typing import Any

from written_tables import Step, WrittenReading, histories


def compacted(first: int, last: int) -> Step:
    """Write the log compaction of some versions from Delta Lake's own replay. There is no SQL for that."""

    def compact(spark: Any, location: str) -> None:
        nothing = spark._jvm.scala.Option.empty()
        delta = spark._jvm.org.apache.spark.sql.delta
        changes = delta.DeltaLog.forTable(spark._jsparkSession, location).getChanges(first, last, nothing, True)
        replay = delta.actions.InMemoryLogReplay(nothing, nothing)
        while changes.hasNext():
            commit = changes.next()
            replay.append(commit._1(), commit._2().iterator())
        actions, lines = replay.checkpoint(), []
        while actions.hasNext():
            lines.append(actions.next().json() + "\n")
        name = f"{first:020}.{last:020}.compacted.json"
        Path(location, "_delta_log", name).write_text("".join(lines), encoding="utf-8")

    return compact


HISTORIES = histories("delta_histories.txt", {}, {"compacted": compacted})
_VECTOR, _FEED = "deletion_vector_*.bin", WrittenReading(feed=True)
_SIDECARS = "_delta_log/_sidecars/*.parquet"
_LINEAGE = WrittenReading("id, s, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version")
READINGS = {
    **dict.fromkeys(("deletion-vectors", "delete-among-many"), WrittenReading(proof=(_VECTOR,))),
    **dict.fromkeys(("row-tracking", "row-tracking-copy-on-write"), _LINEAGE),
    **dict.fromkeys(("change-data-feed-of-vectors", "change-data-feed-of-partitions"), _FEED),
    "change-data-feed": WrittenReading(feed=True, proof=("_change_data/*.parquet",)),
    "vacuumed": WrittenReading(oldest=5),
    "classic-checkpoints": WrittenReading(proof=("_delta_log/*.checkpoint.parquet",)),
    "checkpoints-in-parts": WrittenReading(proof=("_delta_log/*.checkpoint.*.*.parquet",)),
    "v2-checkpoints-json": WrittenReading(proof=("_delta_log/*.checkpoint.*-*.json", _SIDECARS)),
    "v2-checkpoints-parquet": WrittenReading(proof=("_delta_log/*.checkpoint.*-*.parquet", _SIDECARS)),
    "log-compaction": WrittenReading(proof=("_delta_log/*1.*3.compacted.json", "_delta_log/*4.*6.compacted.json")),
    "variant": WrittenReading(texts=("v", "n.w")),
}
"""Histories for which more than the columns is compared."""
