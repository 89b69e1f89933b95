"""Clients of an Iceberg REST catalog. Each client reads a table in an interpreter that has the client's package.

The argument is the name of the client. Standard input has the read as a JSON object: the address of the catalog
(`uri`), the table, and optionally `columns`, `where`, `snapshot_id`, `branch`, and `after`. `after` selects the rows
that were appended after this snapshot. Standard output gets the ids of the rows as a JSON list, or null if the client
cannot express the read.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def pyiceberg(read: dict[str, Any]) -> list[int] | None:
    catalogs = importlib.import_module("pyiceberg.catalog.rest")
    table = catalogs.RestCatalog("lake", uri=read["uri"]).load_table(read["table"])
    options: dict[str, Any] = {"selected_fields": tuple(read.get("columns", ["*"]))}
    if "where" in read:
        options["row_filter"] = read["where"]
    if "after" in read:
        scan = table.incremental_append_scan(from_snapshot_id_exclusive=read["after"], **options)
    else:
        scan = table.scan(snapshot_id=read.get("snapshot_id"), **options)
    if "branch" in read:
        scan = scan.use_ref(read["branch"])
    ids: list[int] = scan.to_arrow()["id"].to_pylist()
    return ids


def duckdb_iceberg(read: dict[str, Any]) -> list[int] | None:
    if "branch" in read or "after" in read:
        return None
    duckdb = importlib.import_module("duckdb")
    connection = duckdb.connect(config={"allow_unsigned_extensions": True})
    for name in ("avro", "httpfs", "iceberg"):
        package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        (file,) = package.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    options = "TYPE iceberg, AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none'"
    connection.execute(f"ATTACH '' AS lake ({options}, ENDPOINT '{read['uri']}')")
    at = f" AT (VERSION => {read['snapshot_id']})" if "snapshot_id" in read else ""
    where = f" WHERE {read['where']}" if "where" in read else ""
    rows = connection.execute(f"SELECT id FROM lake.{read['table']}{at}{where}").fetchall()
    return [id_ for (id_,) in rows]


def harness(read: dict[str, Any]) -> list[int] | None:
    own, servers = importlib.import_module("harness"), importlib.import_module("harness.metadata.catalogs.unity_rest")
    client = importlib.import_module("harness.testing.lake_catalog_client")
    catalog = client.RestCatalog(server=servers.Server(uri=read["uri"], name="lake", token=None))
    table = own.open_table(read["table"], catalog=catalog)
    options = {"columns": read.get("columns"), "where": read.get("where")}
    if "after" in read:
        rows = table.changes(read["after"], mode="appends", **options)
        ids: list[int] = rows.to_arrow()["id"].to_pylist()
        return ids
    at = read.get("snapshot_id", read.get("branch"))
    return [row["id"] for row in table.snapshot(at).to_arrow(**options).to_pylist()]


CLIENTS = {"harness": harness, "pyiceberg": pyiceberg, "duckdb-iceberg": duckdb_iceberg}

if __name__ == "__main__":
    print(json.dumps(CLIENTS[sys.argv[1]](json.load(sys.stdin))))
