"""Revenue by region and day, and the orders that are new since the last run."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, functions


def revenue(spark: SparkSession, since: str) -> DataFrame:
    orders = spark.table("prod.db.orders").where(functions.col("day") >= since)
    regions = spark.read.format("delta").load(spark.conf.get("revenue.regions"))
    return (
        orders.join(regions, "customer", "left")
        .groupBy("day", functions.coalesce("region", functions.lit("unknown")).alias("region"))
        .agg(functions.sum("total").alias("revenue"), functions.count("*").alias("orders"))
    )


def new_orders(spark: SparkSession) -> DataFrame:
    last = spark.sql("SELECT snapshot_id FROM prod.db.orders.snapshots ORDER BY committed_at DESC LIMIT 2").collect()
    before = last[-1].snapshot_id
    return spark.sql(
        f"""
        SELECT o.id, o.customer FROM prod.db.orders o
        LEFT ANTI JOIN (SELECT id FROM prod.db.orders VERSION AS OF {before}) b ON o.id = b.id
        """
    )


def main(since: str) -> None:
    spark = SparkSession.builder.appName("revenue").getOrCreate()
    revenue(spark, since).writeTo("prod.db.revenue").overwritePartitions()
    new_orders(spark).write.format("delta").mode("append").save(spark.conf.get("revenue.new_orders"))


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
