"""Readers of all file formats: from bytes to schemas, rows, and positions, with checks of everything that is used.

Read `parquet` first, the format of most data files. `parquet_footer` has the checks that every footer must pass. Avro,
the format of manifests and of some data files, is read by `avro_container` (from the header to records), `avro_values`
(the decoder), `avro_schema` (the writer's schema as a tree), and `avro` (whole files as Arrow). `orc` reads ORC,
`roaring` reads bitmaps of deleted rows, `variant` reads values of that type, and `documents` reads JSON and compressed
bytes.
"""
