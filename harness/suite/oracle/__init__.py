"""The oracle: a reader of Iceberg and Delta tables in plain Python that checks all readers.

The oracle shares only the error classes with the rest of harness. It has no cache, skips no file, and reads row by row.
It is slow, and simple enough to be reviewed against the specifications. The code cites the rule that each part
implements: "iceberg 4.7" and "delta R3" are numbers in `docs/rules`, and each module names the sections of the
specifications that it implements.

The modules, in reading order:

    types           types, fields and values, and the columns of a data file
    documents       JSON, bytes and compression       paths           recorded and physical paths, local files
    values          values as text, type conversion, and geometries
    scan            the request and the scan          avro            Avro, byte by byte
    files           data files: Parquet, ORC, Avro    variants        variants, plain and shredded
    columns         a table's columns in one file     bitmaps         deletion vectors
    reading         the rows of a scan                entry           the entry point `read`

    iceberg_metadata   metadata files, schemas, specs, snapshots
    iceberg_manifests  manifests, inheritance, partition tuples
    iceberg            the current metadata, moved tables, the scope of deletes, the scan
    iceberg_changes    the rows that the snapshots of a range inserted and deleted

    delta_log       commits, checkpoints, replay      delta_schema    protocol, schema, partition values
    delta           versions and times, vectors, row tracking, the scan
    delta_changes   the change data feed
"""
