"""The oracle: the book of both formats, a reader in plain Python, slow, and meant to be seen to be right.

The oracle shares only the errors with the readers that it checks. It has no cache, skips no file and reads row by row.
Every rule is cited beside the lines that keep the rule: "iceberg 4.7" and "delta R3" are the numbers of `docs/rules`,
and a chapter begins with the sections of the specifications that it follows. The order of the chapters:

    types           types, fields and values, and what a file stores
    documents       JSON, bytes and compression       paths           recorded and physical paths, local files
    values          values in texts, in other types, and geometries
    scan            what is asked, what a read does   avro            Avro, byte by byte
    files           data files: Parquet, ORC, Avro    variants        variants, plain and shredded
    columns         a table's columns in one file     bitmaps         deletion vectors
    reading         the rows of a scan, and the door: `read`

    iceberg_metadata   metadata files, schemas, specs, snapshots
    iceberg_manifests  manifests, inheritance, partition tuples
    iceberg            the current metadata, moved tables, the scope of deletes, the scan

    delta_log       commits, checkpoints, replay      delta_schema    protocol, schema, partition values
    delta           versions and times, vectors, row tracking, the scan
    delta_changes   the change data feed
"""
