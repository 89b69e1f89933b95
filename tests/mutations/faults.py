"""Faults that readers of tables really had, each as one edit of harness; the suite must notice every one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong edit.

    file: below `harness/`. before: text that occurs once in it; after: what stands there instead.
    """

    name: str
    file: str
    before: str
    after: str


FAULTS = (
    # Which deletes hit which file.
    Fault(
        "equality deletes hit files of their own sequence number",
        "iceberg/delete_lookup.py",
        "return bisect_right(self.numbers, number)",
        "return bisect_left(self.numbers, number)",
    ),
    Fault(
        "position deletes spare files of their own sequence number",
        "iceberg/delete_lookup.py",
        "return self.entries[bisect_left(self.numbers, number) :]",
        "return self.entries[bisect_right(self.numbers, number) :]",
    ),
    Fault(
        "equality deletes hit all partitions",
        "iceberg/deletes.py",
        "return None if spec.is_unpartitioned else _partition(entry.file, partition_of)",
        "return None",
    ),
    Fault(
        "global equality deletes hit unpartitioned files only",
        "iceberg/deletes.py",
        "return None if spec.is_unpartitioned else _partition(entry.file, partition_of)",
        "return _partition(entry.file, partition_of)",
    ),
    Fault(
        "equality deletes hit all partitions of their spec",
        "iceberg/deletes.py",
        "return file.spec_id, partition_of(file)",
        "return file.spec_id",
    ),
    Fault(
        "position deletes are dropped where there is a second file of them",
        "iceberg/position_deletes.py",
        "return bitmaps[0] if len(bitmaps) == 1 else BitMap64.union(*bitmaps) if bitmaps else None",
        "return bitmaps[0] if bitmaps else None",
    ),
    Fault(
        "deletion vectors are not looked for",
        "iceberg/deletes.py",
        "vector = self._vectors.get(data.file.path)",
        "vector = None",
    ),
    Fault(
        "deleted entries of manifests are live",
        "iceberg/manifest_entries.py",
        "if status is Status.DELETED and self._live_only:",
        "if False:",
    ),
    Fault(
        "sequence numbers are those of the manifest, whatever the entry says",
        "iceberg/manifest_entries.py",
        "        if sequence_number is None:\n            sequence_number = self._inherited(status)\n",
        "        if True:\n            sequence_number = self._manifest.sequence_number\n",
    ),
    Fault(
        "row ids of a manifest's second file begin again",
        "iceberg/manifest_entries.py",
        "self._next_row_id = assigned + record_count",
        "self._next_row_id = assigned",
    ),
    Fault(
        "bounds of equality keys are compared without nulls",
        "iceberg/equality_bounds.py",
        "    if _may_hold_null(key, delete) and _may_hold_null(key, data):\n        return True\n",
        "",
    ),
    # Time travel.
    Fault(
        "a time selects the snapshot after it",
        "iceberg/snapshots.py",
        "if entry.timestamp_ms <= time_ms and",
        "if entry.timestamp_ms < time_ms and",
    ),
    Fault(
        "a snapshot is shown in the schema of now",
        "iceberg/snapshots.py",
        "    if snapshot.schema_id is None:\n        return metadata.current_schema\n",
        "    return metadata.current_schema\n",
    ),
    # Pruning.
    Fault(
        "months are counted towards zero",
        "iceberg/transforms.py",
        "return lambda value: _months(value // per_day)\n",
        "return lambda value: _months(int(value / per_day))\n",
    ),
    Fault(
        "truncation of negative numbers rounds towards zero",
        "iceberg/partition_predicates.py",
        "floor = value - value % width",
        "floor = int(value / width) * width",
    ),
    Fault(
        "ranges over truncated negative numbers round towards zero",
        "iceberg/partition_predicates.py",
        "bound = value + step - (value + step) % width",
        "bound = int((value + step) / width) * width",
    ),
    Fault(
        "numbers that wrapped around at the least number are not looked for",
        "iceberg/partition_predicates.py",
        "return Or((at_most, In(target, _wrapped(transform.width))))",
        "return at_most",
    ),
    Fault(
        "instants before 1970 that old writers rounded up are not looked for",
        "iceberg/partition_predicates.py",
        "return (result, result + 1) if result < 0 else (result,)",
        "return (result,)",
    ),
    Fault(
        "buckets are taken of signed hashes",
        "iceberg/transforms.py",
        "(hashed(value) & 0x7FFFFFFF) % n",
        "abs(hashed(value)) % n",
    ),
    Fault(
        "a column without statistics is taken for all null",
        "iceberg/pruning.py",
        "    if values is None and nulls is None and nans is None and lower is None and upper is None:\n"
        "        return None\n",
        "    if values is None and nulls is None and nans is None and lower is None and upper is None:\n"
        "        return ColumnStats(lower=None, upper=None, null_count=1, nan_count=0, value_count=1)\n",
    ),
    # Columns.
    Fault(
        "columns are found by name, not by id",
        "projection.py",
        "        found = by_id(wanted.id, level)\n",
        "        found = by_name(wanted.name, level)\n",
    ),
    Fault(
        "a column that a file lacks is null, whatever its default",
        "projection.py",
        "return Value(None if self.lookup.is_delta else self.default(wanted, path))",
        "return Value(None)",
    ),
    Fault(
        "partition constants are not used for files that lack the column",
        "projection.py",
        "        if is_partition:\n            return PartitionValue(wanted.id)\n        return Value(",
        "        return Value(",
    ),
    Fault(
        "a null struct is a struct of nulls",
        "engines/duckdb/columns.py",
        'return f"CASE WHEN {access} IS NULL THEN NULL ELSE {built} END"',
        "return built",
    ),
    Fault(
        "a wall clock in nanoseconds is rounded where micros are wanted",
        "engines/duckdb/columns.py",
        'local = f"make_timestamp(({nanos} - ({nanos} % 1000 + 1000) % 1000) // 1000)"',
        'local = f"make_timestamp({nanos} // 1000)"',
    ),
    # Lowering to DuckDB.
    Fault(
        "null keys match nothing",
        "engines/duckdb/equality.py",
        'return f"{data} IS NOT DISTINCT FROM d.{key}"',
        'return f"{data} = d.{key}"',
    ),
    Fault(
        "a branch shares the deletes of the first scope",
        "engines/duckdb/equality.py",
        "return self._by_scope(self.plan.equality_scopes[int(str(split))], roots)",
        "return self._by_scope(self.plan.equality_scopes[-1], roots)",
    ),
    Fault(
        "one join of many scopes takes deletes of all partitions",
        "engines/duckdb/equality.py",
        'on.append(f"{data.partition()} = d.kp")',
        'on.append(f"({data.partition()} = d.kp OR true)")',
    ),
    Fault(
        "one join of many scopes takes deletes of the same commit",
        "engines/duckdb/equality.py",
        'on.append(f"{data.sequence_number()} < d.ks")',
        'on.append(f"{data.sequence_number()} <= d.ks")',
    ),
    Fault(
        "a partition spec that the metadata lost gives no constants",
        "iceberg/scan.py",
        "    if not found:\n        return source\n",
        "    return source\n",
    ),
    Fault(
        "columns of type unknown are judged by statistics of files",
        "iceberg/pruning.py",
        "opaque = (StructType, UnknownType)",
        "opaque = (StructType,)",
    ),
    Fault(
        "position deletes of a file in the wrong path order get its neighbour's rows",
        "iceberg/position_deletes.py",
        'grouped = values[np.argsort(codes, kind="stable")]',
        "grouped = values",
    ),
    Fault(
        "deletes are not loaded where a filter is given",
        "engines/duckdb/lowering.py",
        "loaded = self.plan.load_positions([i for i in files if files.has_positions[i]])",
        "loaded = self.plan.load_positions([i for i in files if files.has_positions[i] and self.plan.filter is None])",
    ),
    Fault(
        "the filter is not applied to rows, only to files",
        "engines/duckdb/lowering.py",
        "WHERE {plan.filter.sql}",
        "WHERE true OR {plan.filter.sql}",
    ),
    Fault(
        "row ids are positions",
        "engines/duckdb/branch.py",
        'return self._lineage(column, first, f"{first} + f.file_row_number")',
        'return self._lineage(column, first, "f.file_row_number")',
    ),
    # Delta.
    Fault(
        "a checkpoint is preferred over newer commits",
        "delta/segment.py",
        "commits=tuple(_commits(listing, first, target)),",
        "commits=() if checkpoint is not None else tuple(_commits(listing, first, target)),",
    ),
    Fault(
        "the first action on a file wins",
        "delta/replay.py",
        "order = np.lexsort((ranks, codes)).astype(np.int64)",
        "order = np.lexsort((-ranks, codes)).astype(np.int64)",
    ),
    Fault(
        "removes do not touch files of the checkpoint",
        "delta/replay.py",
        "return concat_files((*_without(self.base, ids), live))",
        "return concat_files((*self.base, live))",
    ),
    Fault(
        "all vectors of a file are its first",
        "delta/deletion_vectors.py",
        "offsets = [self.targets[ordinal].vector.offset or _FIRST_OFFSET for ordinal in ordinals]  # delta D6",
        "offsets = [_FIRST_OFFSET for ordinal in ordinals]",
    ),
    Fault(
        "compacted commits overlap those read one by one",
        "delta/segment.py",
        "if compaction.first >= free and compaction.last <= last:",
        "if compaction.first >= free:",
    ),
    Fault(
        "one part of OR that a partition excludes excludes all",
        "delta/skipping.py",
        "            if Constant(True) in bound:\n                return Constant(True)\n",
        "            if Constant(False) in bound:\n                return Constant(False)\n",
    ),
    Fault(
        "cut maxima of texts are taken as they are",
        "delta/bounds.py",
        "value if value is None or len(value) < PREFIX_LENGTH else _after_prefix(value[:PREFIX_LENGTH])",
        "value",
    ),
    Fault(
        "an empty text is no null partition value",
        "delta/partition_values.py",
        '        case _ if text == "":\n            return None\n',
        '        case _ if text == "":\n            raise _NoValueError("a value")\n',
    ),
    Fault(
        "offsets of partition timestamps are dropped",
        "delta/partition_values.py",
        "return micros - _offset_us(zone)",
        "return micros",
    ),
    Fault(
        "commit times are file times, even where they go back",
        "delta/commit_times.py",
        "times.append(CommitTime(version, max(least, file.modified_ms)))",
        "times.append(CommitTime(version, file.modified_ms))",
    ),
    # Files that are damaged, or that an engine would read otherwise than they are stored.
    Fault(
        "the checksum of a snappy block is not looked at",
        "files/avro_codecs.py",
        'if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != block[-_CRC_BYTES:]:',
        "if False:",
    ),
    Fault(
        "a branch that a union does not have is its null",
        "files/avro_columns.py",
        "        if branch != null:\n",
        "        if branch > 3:\n",
    ),
    Fault(
        "what is left of a block of Avro is nothing",
        "files/avro_columns.py",
        "    if position != len(block):\n",
        "    if position > len(block):\n",
    ),
    Fault(
        "geometries come in whatever form they are stored",
        "engines/duckdb/columns.py",
        'else f"st_aswkb(st_geomfromwkb({access}))"',
        "else access",
    ),
)
