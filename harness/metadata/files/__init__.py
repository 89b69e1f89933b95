"""Files of all formats: bytes to schemas, rows and positions, checked before anything is believed.

Read `parquet` first, the format of most data files; `parquet_footer` has the checks that every footer passes. Avro, of
manifests and of data files alike, is in `avro_container` (header to records), `avro_values` (the decoder),
`avro_schema` (the writer's schema as a tree, fields by id) and `avro` (whole files as Arrow). `orc` reads ORC,
`roaring` bitmaps of deleted rows, `variant` the values of that type, and `documents` JSON and compressed bytes.
"""
