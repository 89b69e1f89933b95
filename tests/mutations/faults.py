"""Faults that readers of tables really had, each as one edit of harness; the suite must notice every one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong edit.

    file: below `harness/`. before: text that occurs once in it; after: what stands there instead. test: the file of
    tests, or the test, that catches it, where neither scenarios nor properties reach, or where they reach by chance.
    seen: the report of a reader that had the fault.
    """

    name: str
    file: str
    before: str
    after: str
    test: str | None = None
    seen: str | None = None


STATES = "tests/exhaustive/test_states.py"
HISTORIES = "tests/exhaustive/test_histories.py::test_every_history_reads_as_the_model_says"

FAULTS = (
    # Which deletes hit which file.
    Fault(
        "equality deletes hit files of their own sequence number",
        "metadata/iceberg/delete_scope.py",
        "return bisect_right(numbers, number)",
        "return bisect_left(numbers, number)",
    ),
    Fault(
        "position deletes spare files of their own sequence number",
        "metadata/iceberg/delete_scope.py",
        "return bisect_left(numbers, number)",
        "return bisect_right(numbers, number)",
    ),
    Fault(
        "equality deletes hit all partitions",
        "metadata/iceberg/delete_scope.py",
        "return None if spec.is_unpartitioned else self.partition_of(delete.file)",
        "return None",
    ),
    Fault(
        "global equality deletes hit unpartitioned files only",
        "metadata/iceberg/delete_scope.py",
        "return None if spec.is_unpartitioned else self.partition_of(delete.file)",
        "return self.partition_of(delete.file)",
    ),
    Fault(
        "equality deletes hit all partitions of their spec",
        "metadata/iceberg/values.py",
        "return partition_key(spec_id, values, types) if types else spec_id",
        "return spec_id",
    ),
    Fault(
        "position deletes are dropped where there is a second file of them",
        "metadata/iceberg/position_deletes.py",
        "return bitmaps[0] if len(bitmaps) == 1 else BitMap64.union(*bitmaps) if bitmaps else None",
        "return bitmaps[0] if bitmaps else None",
    ),
    Fault(
        "deletion vectors are not looked for",
        "metadata/iceberg/deletes.py",
        "vector = self._vectors.get(path)\n        if",
        "vector = None\n        if",
    ),
    Fault(
        "deleted entries of manifests are live",
        "metadata/iceberg/manifests.py",
        "if status is Status.DELETED and self._live_only:",
        "if False:",
    ),
    Fault(
        "sequence numbers are those of the manifest, whatever the entry says",
        "metadata/iceberg/manifests.py",
        "        if sequence_number is None:\n            sequence_number = inherited\n",
        "        if True:\n            sequence_number = self._manifest.sequence_number\n",
    ),
    Fault(
        "row ids of a manifest's second file begin again",
        "metadata/iceberg/manifests.py",
        "self._next_row_id = assigned + record_count",
        "self._next_row_id = assigned",
    ),
    Fault(
        "bounds of equality keys are compared without nulls",
        "metadata/iceberg/delete_scope.py",
        "    if one.has_nulls and other.has_nulls:\n        return True\n",
        "",
    ),
    # Time travel.
    Fault(
        "a time selects the snapshot after it",
        "metadata/iceberg/source.py",
        "if entry.timestamp_ms <= time_ms and",
        "if entry.timestamp_ms < time_ms and",
    ),
    Fault(
        "a snapshot is shown in the schema of now",
        "metadata/iceberg/source.py",
        "    if snapshot.schema_id is None:\n        return metadata.current_schema\n",
        "    return metadata.current_schema\n",
    ),
    # Pruning.
    Fault(
        "months are counted towards zero",
        "metadata/iceberg/transforms.py",
        "return lambda value: _months(value // per_day)\n",
        "return lambda value: _months(int(value / per_day))\n",
    ),
    Fault(
        "truncation of negative numbers rounds towards zero",
        "metadata/iceberg/skipping.py",
        "floor = value - value % width",
        "floor = int(value / width) * width",
    ),
    Fault(
        "ranges over truncated negative numbers round towards zero",
        "metadata/iceberg/skipping.py",
        "bound = value + step - (value + step) % width",
        "bound = int((value + step) / width) * width",
    ),
    Fault(
        "numbers that wrapped around at the least number are not looked for",
        "metadata/iceberg/skipping.py",
        "return Or((at_most, In(target, wrapped)))",
        "return at_most",
    ),
    Fault(
        "instants before 1970 that old writers rounded up are not looked for",
        "metadata/iceberg/skipping.py",
        "return (result, result + 1) if result < 0 else (result,)",
        "return (result,)",
    ),
    Fault(
        "buckets are taken of signed hashes",
        "metadata/iceberg/transforms.py",
        "(hashed(value) & 0x7FFFFFFF) % n",
        "abs(hashed(value)) % n",
    ),
    Fault(
        "a column without counts is taken for all null",
        "metadata/iceberg/skipping.py",
        "has_values=~(total & counted_nulls & (nulls.values == values.values)),",
        "has_values=values.known & ~(total & counted_nulls & (nulls.values == values.values)),",
    ),
    # Columns.
    Fault(
        "columns are found by name, not by id",
        "metadata/plan/projection.py",
        "        found = by_id(wanted.id, level)\n",
        "        found = by_name(wanted.name, level)\n",
    ),
    Fault(
        "a column that a file lacks is null, whatever its default",
        "metadata/plan/projection.py",
        "return Value(None if self.lookup.is_delta else self.default(wanted, path))",
        "return Value(None)",
    ),
    Fault(
        "partition constants are not used for files that lack the column",
        "metadata/plan/projection.py",
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
        "engines/duckdb/scans.py",
        'return f"{data} IS NOT DISTINCT FROM d.{key}"',
        'return f"{data} = d.{key}"',
    ),
    Fault(
        "a branch shares the deletes of the first scope",
        "engines/duckdb/scans.py",
        "return self._by_scope(self.plan.delete_sets[scope], roots, rows)",
        "return self._by_scope(self.plan.delete_sets[-1], roots, rows)",
    ),
    Fault(
        "one join of many scopes takes deletes of all partitions",
        "engines/duckdb/scans.py",
        'on.append("s.sp = d.kp")',
        'on.append("(s.sp = d.kp OR true)")',
    ),
    Fault(
        "one join of many scopes takes deletes of the same commit",
        "engines/duckdb/scans.py",
        'on.append("s.sq < d.ks")',
        'on.append("s.sq <= d.ks")',
    ),
    Fault(
        "a partition spec that the metadata lost gives no constants",
        "metadata/iceberg/scan.py",
        "    if not found:\n        return source\n",
        "    return source\n",
    ),
    Fault(
        "columns of type unknown are judged by statistics of files",
        "metadata/iceberg/skipping.py",
        "opaque = (dt.StructType, dt.UnknownType)",
        "opaque = (dt.StructType,)",
    ),
    Fault(
        "position deletes of a file in the wrong path order get its neighbour's rows",
        "metadata/iceberg/position_deletes.py",
        'grouped = values[np.argsort(codes, kind="stable")]',
        "grouped = values",
    ),
    Fault(
        "deletes are not loaded where a filter is given",
        "engines/union_arms.py",
        "loaded = plan.load_positions([i for i in planned if planned.has_positions[i]])",
        "loaded = plan.load_positions([i for i in planned if planned.has_positions[i] and plan.filter is None])",
    ),
    Fault(
        "the filter is not applied to rows, only to files",
        "engines/duckdb/lowering.py",
        "WHERE {plan.filter.sql}",
        "WHERE true OR {plan.filter.sql}",
    ),
    Fault(
        "files that a filter keeps whole have the deletes of the first files",
        "engines/union_arms.py",
        "deleted=None if self.deleted is None else tuple(self.deleted[i] for i in places),",
        "deleted=None if self.deleted is None else self.deleted[: len(places)],",
        test="tests/engines/test_duckdb_positional_join.py",
    ),
    Fault(
        "files that a filter keeps in part are not read beside those that it keeps whole",
        "engines/duckdb/lowering.py",
        "            others += rest\n",
        "",
        test="tests/engines/test_duckdb_positional_join.py",
    ),
    Fault(
        "row ids are positions",
        "engines/union_arms.py",
        "return Lineage(first, self._stored_or(column, PositionFrom(first)))",
        "return Lineage(first, self._stored_or(column, Position()))",
    ),
    # Delta.
    Fault(
        "a checkpoint is preferred over newer commits",
        "metadata/delta/segment.py",
        "commits=_commits(listing, checkpoint, target),",
        "commits=() if checkpoint is not None else _commits(listing, checkpoint, target),",
    ),
    Fault(
        "the first action on a file wins",
        "metadata/delta/replay.py",
        "order = np.lexsort((ranks, codes)).astype(np.int64)",
        "order = np.lexsort((-ranks, codes)).astype(np.int64)",
    ),
    Fault(
        "removes do not touch files of the checkpoint",
        "metadata/delta/replay.py",
        "return concat_files((*_without(self.base, ids), live))",
        "return concat_files((*self.base, live))",
    ),
    Fault(
        "all vectors of a file are its first",
        "metadata/delta/deletion_vectors.py",
        "offsets = [self.targets[ordinal].vector.offset or _FIRST_OFFSET for ordinal in ordinals]  # delta D6",
        "offsets = [_FIRST_OFFSET for ordinal in ordinals]",
    ),
    Fault(
        "compacted commits overlap those read one by one",
        "metadata/delta/segment.py",
        "if compaction.first >= free and compaction.last <= last:",
        "if compaction.first >= free:",
    ),
    Fault(
        "one part of OR that a partition excludes excludes all",
        "metadata/delta/skipping.py",
        "            if Constant(True) in bound:\n                return Constant(True)\n",
        "            if Constant(False) in bound:\n                return Constant(False)\n",
    ),
    Fault(
        "cut maxima of texts are taken as they are",
        "metadata/delta/bounds.py",
        "value if value is None or len(value) < PREFIX_LENGTH else _after_prefix(value[:PREFIX_LENGTH])",
        "value",
    ),
    Fault(
        "an empty text is no null partition value",
        "metadata/delta/partition_values.py",
        '        case _ if text == "":\n            return None\n',
        '        case _ if text == "":\n            raise _NoValueError("a value")\n',
    ),
    Fault(
        "offsets of partition timestamps are dropped",
        "metadata/delta/partition_values.py",
        "                return micros - _offset_us(zone)",
        "                return micros",
    ),
    Fault(
        "commit times are file times, even where they go back",
        "metadata/delta/commit_times.py",
        "max(least, file.modified_ms) if times else file.modified_ms",
        "file.modified_ms",
    ),
    # Commits that only a catalog knows.
    Fault(
        "a published commit is read in place of the catalog's",
        "metadata/delta/segment.py",
        "{**listing.commits, **ratified}",
        "{**ratified, **listing.commits}",
    ),
    Fault(
        "commits above the catalog's version are read",
        "metadata/delta/segment.py",
        "ceiling=version,",
        "ceiling=max(version, listing.latest),",
    ),
    Fault(
        "staged commits are found by their version alone",
        "metadata/delta/segment.py",
        "    entry = staged.get(commit.name)\n",
        "    entry = next((e for name, e in staged.items() if name[:20] == commit.name[:20]), None)\n",
    ),
    # Nodes of SQL that are taken for others.
    Fault(
        "a special form of an SQL node is the general one",
        "metadata/filters/literals.py",
        "            return base\n",
        "            return None\n",
    ),
    Fault(
        "functions are those that sqlglot takes them for",
        "queries/transpile/parser.py",
        "if name.lower() not in NAMES",
        "",
        test="tests/queries/test_functions.py",
    ),
    Fault(
        "a join by NEAREST is one without a condition",
        "queries/outputs.py",
        "        if any(said for part, said in join.args.items() if part not in _JOIN):\n            return None\n",
        "",
        test="tests/queries/test_sql_pushdown.py",
    ),
    Fault(
        "parts of a node that nothing looks at are overlooked",
        "queries/transpile/parser.py",
        "if value and name not in known]",
        "if value and name not in known and isinstance(node, exp.Func)]",
        test="tests/queries/test_syntax.py",
    ),
    Fault(
        "a query may be read otherwise than DuckDB reads it",
        "queries/sql.py",
        "        if found is not None:\n            part = ",
        "        if False:\n            part = ",
        test="tests/queries/test_syntax.py",
    ),
    # Optional parts of Delta's log that are there and wrong.
    Fault(
        "a deletion vector that says that it deletes no row is not read",
        "metadata/delta/scan.py",
        '"has_positions": pc.is_valid(files.column("dv_storage_type")),',
        '"has_positions": pc.fill_null(pc.greater(files.column("dv_cardinality"), 0), False),',
    ),
    Fault(
        "a deletion vector without its keys is none",
        "metadata/delta/action_lines.py",
        '    vector = body.get("deletionVector")\n    if vector is None:',
        '    vector = body.get("deletionVector")\n    if True:',
    ),
    Fault(
        "a metaData without partition columns is of an unpartitioned table",
        "metadata/delta/action_lines.py",
        '    if columns is None:\n        raise _FieldError("has no partitionColumns")\n',
        "    columns = columns or ()\n",
    ),
    Fault(
        "change feeds leave out files by what a deletion vector says of itself",
        "metadata/delta/changes.py",
        "        partitions, indexes = self._partitions(",
        "        files = [file for file in files if file.shown is None or file.shown.cardinality > 0]\n"
        "        partitions, indexes = self._partitions(",
    ),
    Fault(
        "a checkpoint without the column add is of an empty table",
        "metadata/delta/checkpoints.py",
        "        if not self.has_adds:\n",
        "        if False:\n",
    ),
    Fault(
        "a checkpoint that lost files is believed against the hint",
        "metadata/delta/checkpoints.py",
        "    if said is None or found is None or said == found:\n",
        "    if said is None or found is None or True:\n",
    ),
    Fault(
        "a redirected table is read where its data was",
        "metadata/delta/protocol.py",
        "        if state == _READY and not _is_at(table, document):\n            message",
        "        if False:\n            message",
    ),
    Fault(
        "a compacted log file is believed against the checksum of its version",
        "metadata/delta/replay.py",
        "    if doubts and segment.compactions:\n",
        "    if False:\n",
    ),
    # Counts and bounds of writers that err.
    Fault(
        "files whose record count is 0 are dropped",
        "metadata/iceberg/skipping.py",
        "    verdicts[places[~held]] = BY_STATISTICS\n",
        "    verdicts[places[~held]] = BY_STATISTICS\n"
        '    verdicts[data.table.column("record_count").to_numpy() == 0] = BY_STATISTICS\n',
    ),
    Fault(
        "upper bounds of texts in partition summaries are taken as they are",
        "metadata/plan/trust.py",
        'Trust.ROUNDED_UP, "a known writer cuts',
        'Trust.YES, "a known writer cuts',
    ),
    Fault(
        "partition summaries of binary values are believed of every writer",
        "metadata/plan/trust.py",
        "        Trust.NAMED_WRITER,\n",
        "        Trust.YES,\n",
    ),
    Fault(
        "manifests of data whose counts say that they have no live files are dropped",
        "metadata/iceberg/scan.py",
        "opened = self._open(data, condition, statistics)",
        "opened = self._open([m for m in data if m.added_files_count], condition, statistics)",
    ),
    Fault(
        "manifests of deletes whose counts say that they have no live files are dropped",
        "metadata/iceberg/scan.py",
        "            for manifest in manifests:\n                data = read",
        "            for manifest in (m for m in manifests if m.added_files_count):\n                data = read",
    ),
    Fault(
        "counts of no values say that a key is always null",
        "metadata/model/column_stats.py",
        "counts if counts[0] != 0 else (None, None, None)",
        "counts",
    ),
    Fault(
        "files whose numRecords is 0 are dropped",
        "metadata/delta/scan.py",
        "verdicts = self._verdicts(condition, statistics, self.snapshot.partitions)\n",
        "verdicts = self._verdicts(condition, statistics, self.snapshot.partitions)\n"
        "        verdicts[statistics.record_counts(np.arange(len(verdicts))) == 0] = 2\n",
    ),
    Fault(
        "files that have as many deleted rows as they are said to have rows are dropped",
        "metadata/delta/scan.py",
        "verdicts = self._verdicts(condition, statistics, self.snapshot.partitions)\n",
        "verdicts = self._verdicts(condition, statistics, self.snapshot.partitions)\n"
        '        gone = pc.fill_null(state.files.column("dv_cardinality"), -2).to_numpy()\n'
        "        verdicts[gone == statistics.record_counts(np.arange(len(verdicts)))] = 2\n",
    ),
    Fault(
        "a change shows all rows beyond the recorded count",
        "metadata/delta/changes.py",
        "everything.add_range(0, self.rows[file.physical])",
        "everything.add_range(0, file.record_count or self.rows[file.physical])",
    ),
    Fault(
        "bounds of decimals are taken for exact",
        "metadata/delta/bounds.py",
        "lost = _WIDE.multiply(_WIDE.abs(unscaled), _LOST_BY_DOUBLES)",
        "lost = Decimal(0)",
    ),
    Fault(
        "bounds of old dates are taken for exact",
        "metadata/delta/bounds.py",
        "None if value is None or value < _MODERN_DAY else value for",
        "value for",
    ),
    Fault(
        "INT96 in checkpoints comes in nanoseconds",
        "metadata/files/parquet.py",
        'pq.ParquetFile(source, coerce_int96_timestamp_unit="us", ',
        "pq.ParquetFile(source, ",
    ),
    Fault(
        "decimals that were cut to 64 bits are bounds",
        "metadata/delta/bounds.py",
        "return abs(_WIDE.subtract(_WIDE.abs(value), _SATURATED)) <= _SATURATED * _LOST_BY_DOUBLES",
        "return False",
    ),
    # Protocols that contradict themselves.
    Fault(
        "features that only writers are told of are not in force",
        "metadata/delta/protocol.py",
        "known = {_canonical(name) for name in protocol.writer_features or ()} & set(_READ)",
        "known = set[str]()",
    ),
    Fault(
        "what no reader can do does not matter where only writers are told of it",
        "metadata/delta/protocol.py",
        "if _canonical(name) in _REFUSED and name not in unread]",
        "if False]",
    ),
    # Files that are damaged, or that an engine would read otherwise than they are stored.
    Fault(
        "the checksum of a snappy block is not looked at",
        "metadata/files/avro_container.py",
        'if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != block[-_CRC_BYTES:]:',
        "if False:",
    ),
    Fault(
        "a branch that a union does not have is its null",
        "metadata/files/avro_values.py",
        "        if branch != null:\n",
        "        if branch > 3:\n",
    ),
    Fault(
        "what is left of a block of Avro is nothing",
        "metadata/files/avro_container.py",
        "        if position != len(block):\n",
        "        if position > len(block):\n",
    ),
    Fault(
        "geometries come in whatever form they are stored",
        "engines/duckdb/columns.py",
        'else f"st_aswkb(st_geomfromwkb({access}))"',
        "else access",
    ),
    # Types of the results of queries.
    Fault(
        "sums of integers are written to files in bytes that only DuckDB reads",
        "cli/writers.py",
        "    rows = rows.as_arrow()\n",
        "",
        test="tests/test_result_types.py",
    ),
    Fault(
        "unsigned integers of 128 bits leave DuckDB in bytes that only it reads",
        "engines/duckdb/relations.py",
        '    "uhugeint": _WHOLE,\n',
        "",
        test="tests/test_result_types.py",
    ),
    Fault(
        "the zone of a time of day is dropped",
        "engines/duckdb/relations.py",
        '    "time with time zone": "VARCHAR",\n',
        '    "time with time zone": "TIME",\n',
        test="tests/test_result_types.py",
    ),
    Fault(
        "bits leave DuckDB in bytes that only it reads",
        "engines/duckdb/relations.py",
        '    "bit": "VARCHAR",\n',
        '    "bit": "BLOB",\n',
        test="tests/test_result_types.py",
    ),
    Fault(
        "an integer of too many digits is null",
        "engines/duckdb/relations.py",
        """, error({sqltext.text(problem)}))\"""",
        """)\"""",
        test="tests/test_result_types.py",
    ),
    Fault(
        "only the first of two columns is cast",
        "engines/duckdb/relations.py",
        'found = [_cast(f"#{place}", *column, as_arrow=as_arrow) for place, column in enumerate(columns, 1)]',
        'found = [_cast("#1", *columns[0], as_arrow=as_arrow), *(f"#{i}" for i in range(2, len(columns) + 1))]',
        test="tests/test_result_types.py",
    ),
    Fault(
        "integers of 128 bits in nested types are not cast",
        "engines/duckdb/relations.py",
        "    parts = _parts(stored)\n",
        "    parts = []\n",
        test="tests/test_result_types.py",
    ),
    Fault(
        "booleans of results are numbers in Arrow",
        "engines/duckdb/relations.py",
        "own = cursor(lossless=False) if connection is None else connection\n    places = _places(plans, own,",
        "own = cursor() if connection is None else connection\n    places = _places(plans, own,",
        test="tests/test_result_types.py",
    ),
    Fault(
        "booleans are numbers in Parquet files",
        "cli/writers.py",
        "return pa.schema([field.with_type(_with_booleans(field.type)) for field in schema])",
        "return schema",
        test="tests/test_result_types.py",
    ),
    Fault(
        "booleans of tables are numbers in Arrow",
        "engines/duckdb/relations.py",
        "own = cursor(lossless=False) if connection is None else connection\n    with about(plan):",
        "own = cursor() if connection is None else connection\n    with about(plan):",
        test="tests/test_result_types.py",
    ),
    Fault(
        "integers of sums are text in JSON",
        "cli/values.py",
        "    if scale == 0:\n        return _Leaf(text, ",
        "    if scale == 0:\n        return _Leaf(text) if True else _Leaf(text, ",
        test="tests/test_result_types.py",
    ),
    # Which bytes are read as which file.
    Fault(
        "all threads read from one offset",
        "engines/duckdb/store_files.py",
        "return threading.get_ident()",
        "return 0",
        test="tests/engines/test_duckdb_files.py",
    ),
    Fault(
        "stores of one protocol are one",
        "engines/duckdb/store_files.py",
        "self._stores.setdefault(store, len(self._stores))",
        "0",
        test="tests/engines/test_duckdb_files.py",
    ),
    Fault(
        "as many bytes as a store gives are taken",
        "engines/duckdb/store_files.py",
        "if len(data) != length:",
        "if False:",
        test="tests/engines/test_duckdb_files.py",
    ),
    Fault(
        "a file that is opened again is as it was",
        "engines/duckdb/store_files.py",
        "planned.status = planned.storage.known_status(planned.physical)\n        return P",
        "planned.status = planned.status or planned.storage.known_status(planned.physical)\n        return P",
        test="tests/engines/test_duckdb_files.py",
    ),
    Fault(
        "all file systems are asked by several threads",
        "storage/clients.py",
        'if getattr(file_system, "async_impl", False) or not names.isdisjoint(_FOR_THREADS):',
        "if True:",
        test="tests/engines/test_duckdb_files.py",
    ),
    Fault(
        "a directory is read as the files inside",
        "storage/gate.py",
        "    if not stat.S_ISREG(mode):\n        return _irregular(mode)\n",
        "",
        test="tests/storage/test_gate.py",
    ),
    Fault(
        "a path is read to its first NUL",
        "storage/gate.py",
        'return len(path) <= _LONGEST and "\\0" not in path and (path.isascii() or _is_encodable(path))',
        "return len(path) <= _LONGEST",
        test="tests/storage/test_gate.py",
    ),
    Fault(
        "a directory whose name begins like a root's is in it",
        "storage/paths.py",
        'self.path.startswith(root.path + "/")',
        "self.path.startswith(root.path)",
        test="tests/storage",
    ),
    Fault(
        "links of directories are not followed when they are judged",
        "storage/gate.py",
        'if is_inside and not os.path.islink(f"{real}/{name}"):',
        "if is_inside:",
        test="tests/test_containment.py",
    ),
    Fault(
        "a link between the files may lead anywhere",
        "storage/gate.py",
        "return os.open(follow(path), _FLAGS | _NO_LINK)",
        "return os.open(path, _FLAGS)",
        test="tests/test_containment.py",
    ),
    Fault(
        "a path that climbs is one elsewhere",
        "storage/gate.py",
        "if climbs(path if recorded is None else recorded):",
        "if False:",
        test="tests/test_containment.py",
    ),
    Fault(
        "all stores get the options of the table's",
        "storage/stores.py",
        "if self.stores is None or store in self.stores:",
        "if True:",
        test="tests/storage",
    ),
    # Files without columns.
    Fault(
        "a Parquet file without columns has no rows",
        "engines/footers.py",
        "{path: Footer((), rows) for path, rows in bare.items()}",
        "{path: Footer((), 0) for path in bare}",
    ),
    Fault(
        "the count of a file without columns is not held against the metadata",
        "engines/file_groups.py",
        "expected = file.exact_rows if found.schema else file.recorded_rows",
        "expected = file.exact_rows",
    ),
    Fault(
        "an ORC file without columns has no rows",
        "metadata/files/orc.py",
        "pa.nulls(opened.nrows)",
        "pa.nulls(table.num_rows)",
    ),
    # Workers that read tables of strangers.
    Fault(
        "a worker may make sockets",
        "tools/contained/seccomp.py",
        "uname sysinfo getrandom getrlimit recvfrom getsockname",
        "uname sysinfo getrandom getrlimit recvfrom getsockname socket connect",
        test="tests/contained",
    ),
    Fault(
        "a worker may open all files",
        "tools/contained/confining.py",
        "    restrict(readable=directories, writable=scratch)\n",
        "",
        test="tests/contained",
    ),
    Fault(
        "a worker has the environment of the process that starts it",
        "tools/contained/launching.py",
        "env=_environment(scratch)",
        "env={**os.environ, **_environment(scratch)}",
        test="tests/contained",
    ),
    Fault(
        "SQL in a worker may open all files",
        "engines/duckdb/instance.py",
        '        "enable_external_access = false",\n',
        "",
        test="tests/contained",
    ),
    Fault(
        "Arrow data of a worker is taken as it comes",
        "tools/contained/reading.py",
        "rows.validate(full=True)",
        "rows.validate()",
        test="tests/contained",
    ),
    # What is printed and shown.
    Fault(
        "long integers are numbers in JSON that DuckDB writes",
        "cli/values.py",
        'return f"{value} BETWEEN {-EXACT} AND {EXACT}"',
        'return "true"',
        test="tests/cli/test_cli_sql_values.py",
    ),
    Fault(
        "rows that text does not show are not counted",
        "cli/writers.py",
        "total += batch.num_rows",
        "total = min(total + batch.num_rows, max_rows)",
        test="tests/cli/test_cli_writers.py",
    ),
    Fault(
        "notebooks obey markup of tables",
        "errors.py",
        "return html.escape(visible(str(value)))",
        "return visible(str(value))",
        test="tests/test_notebook.py",
    ),
    # Metadata tables.
    Fault(
        "entries of deleted files are not shown",
        "metadata/tables/iceberg_files.py",
        "self._entries([*rest, *self._of(deletes=True)], live_only=False, statistics=ALL if wants_files else None)",
        "self._entries([*rest, *self._of(deletes=True)], statistics=ALL if wants_files else None)",
        test="tests/metadata_tables",
    ),
    Fault(
        "split offsets of a file are all its first one",
        "metadata/iceberg/columns/raw.py",
        "places[later] = found.varints.skip_many(places[later], ordinal[later])",
        "pass",
        test="tests/metadata_tables",
    ),
    Fault(
        "statistics of columns are those of other files",
        "metadata/tables/reading.py",
        "from_numpy(places * size + rows)",
        "from_numpy(rows * len(columns) + places)",
        test="tests/metadata_tables",
    ),
    # What is remembered of files.
    Fault(
        "a local file that is changed in place is the same version",
        "storage/stores.py",
        "-{status.st_mtime_ns}-{status.st_ctime_ns}",
        "-{status.st_mtime_ns}",
        test="tests/cache/test_planning.py",
    ),
    Fault(
        "damaged entries of the cache are used",
        "storage/decoded_folder.py",
        "or text != key.text or digest != _digest(text, body):",
        "or text != key.text:",
        test="tests/cache/test_entries.py",
    ),
    Fault(
        "counts from the cache are those of other files",
        "metadata/iceberg/columns/raw.py",
        "places[owner == i] - starts[i]",
        "places[owner == i]",
        test="tests/iceberg/columns/test_reading.py",
    ),
    Fault(
        "statistics of a later part of a checkpoint are those of other files",
        "metadata/delta/checkpoint_statistics.py",
        "ascending[start:end] - part.first",
        "ascending[start:end]",
        test="tests/delta/test_checkpoint_statistics.py",
    ),
    Fault(
        "a checkpoint is held for every place that the table may be at",
        "metadata/delta/checkpoints.py",
        "told = repr((versions, locator, storage.limits, checkpoint.version))",
        "told = repr((versions, checkpoint.version))",
        test="tests/delta/test_held_checkpoints.py",
    ),
    Fault(
        "statistics of some files of a checkpoint are taken for those of others",
        "metadata/delta/checkpoint_statistics.py",
        "if (found.rows[places] != rows).any():",
        "if False:",
        test="tests/delta/test_kept_statistics.py",
    ),
    Fault(
        "statistics that could not be read are kept as unknown",
        "metadata/delta/checkpoint_statistics.py",
        "None if kept is None or table is None else",
        "None if kept is None else",
        test="tests/delta/test_kept_statistics.py",
    ),
    Fault(
        "a path with dot segments is its own key",
        "metadata/delta/paths.py",
        "return not _is_slash_or_dot(data[1:][data[:-1] == _SLASH]).any()",
        "return True",
        test="tests/delta/test_paths.py",
    ),
    Fault(
        "what follows the table's folder is a key whatever it holds",
        "metadata/delta/paths.py",
        "pc.and_(within, pc.invert(pc.match_substring_regex(rest, _INTRICATE)))",
        "within",
        test="tests/delta/test_paths.py",
    ),
    Fault(
        "texts with one hash are one",
        "metadata/model/arrow_values.py",
        "return str(repeated[0]) if len(repeated) else None",
        'return str(repeated[0]) if len(repeated) else "?"',
        test="tests/model/test_repeated.py",
    ),
    # What other readers lost rows by, and small histories and states find: the report names the smallest.
    Fault(
        "a delete is dropped where its file cannot be sized",
        "metadata/iceberg/deletes.py",
        "        live = [entry for entry in entries if entry.status is not Status.DELETED]\n",
        "        import os\n        from urllib.parse import unquote\n\n"
        "        live = [entry for entry in entries if entry.status is not Status.DELETED]\n"
        "        live = [entry for entry in live if os.path.exists(unquote(entry.file.path))]\n",
        test=f"{STATES}::test_every_pair_leaves_the_rows_that_the_specification_says",
    ),
    Fault(
        "partition values are those of the fields in the order of the spec",
        "metadata/iceberg/manifests.py",
        "    if all(f.id is None for f in written):\n",
        "    if True:\n",
        test=f"{STATES}::test_every_pair_leaves_the_rows_that_the_specification_says",
    ),
    Fault(
        "only the first equality delete of a data file counts",
        "metadata/iceberg/deletes.py",
        "self.answers[key] = tuple(sorted(scope.items[start:] + self.everywhere.items[everywhere:]))",
        "self.answers[key] = tuple(sorted(scope.items[start:] + self.everywhere.items[everywhere:]))[:1]",
        test=f"{HISTORIES}[iceberg-2]",
    ),
    Fault(
        "deletes of rows without a key are left out where there is a filter",
        "engines/duckdb/scans.py",
        '        return f" WHERE {\' AND \'.join(conditions)}" if conditions else ""',
        '        return " WHERE " + " AND ".join([*conditions, *(f"{key} IS NOT NULL" for key in keys)])',
        test=f"{HISTORIES}[iceberg-2]",
    ),
    Fault(
        "a vector is known by its file, without its offset",
        "metadata/iceberg/position_deletes.py",
        "        if deletes.vector is not None:\n            if path not in self.vectors:\n",
        "        if deletes.vector is not None:\n            path = deletes.vector.file.path\n"
        "            if path not in self.vectors:\n",
        test=f"{HISTORIES}[iceberg-3]",
    ),
    Fault(
        "rows are counted by the metadata where no column is read",
        "engines/duckdb/lowering.py",
        "    scanner = Scanner.over(plan, connection, register)\n    plan = with_enough",
        "    if not columns:\n"
        "        return LoweredQuery(f\"FROM range({sum(plan.files.column('record_count').to_pylist())})\", columns)\n"
        "    scanner = Scanner.over(plan, connection, register)\n    plan = with_enough",
        test=f"{HISTORIES}[iceberg-2]",
    ),
    Fault(
        "files of a checkpoint are known by their path, without their vector",
        "metadata/delta/replay.py",
        "kept = pc.invert(pc.is_in(ids_of(table), value_set=replaced))",
        'kept = pc.invert(pc.is_in(table.column("key"), value_set=replaced))',
        test=f"{HISTORIES}[delta]",
    ),
    Fault(
        "rows are numbered after the filter",
        "engines/duckdb/scans.py",
        "        return read_parquet(self.looks.access.listed(physical))\n",
        "        read = read_parquet(self.looks.access.listed(physical))\n"
        "        if self.plan.filter is None:\n            return read\n"
        '        kept = f"(SELECT *, file_index, file_row_number AS n FROM {read}) WHERE {self.plan.filter.sql}"\n'
        '        number = "row_number() OVER (PARTITION BY file_index ORDER BY n) - 1 AS file_row_number"\n'
        '        return f"(SELECT * EXCLUDE (n), {number} FROM {kept})"\n',
        test=f"{HISTORIES}[iceberg-2]",
    ),
    # What readers lost rows by in 2024 to 2026, with the reports.
    Fault(
        "a prefix longer than the truncated value decides which rows do not start with it",
        "metadata/iceberg/skipping.py",
        "return Constant(True) if part.negated else Comparison(target, Op.EQ, part.prefix[:width])",
        "return Comparison(target, Op.NE if part.negated else Op.EQ, part.prefix[:width])",
        seen="apache/iceberg-python#3493, apache/iceberg-go#1192",
    ),
    Fault(
        "a column whose nulls nobody counted has none",
        "metadata/iceberg/skipping.py",
        "has_nulls=~(counted_nulls & (nulls.values == 0)),",
        "has_nulls=counted_nulls & (nulls.values != 0),",
        seen="duckdb/duckdb-iceberg#782",
    ),
    Fault(
        "bounds of floats are taken for bounds of NaN",
        "metadata/iceberg/skipping.py",
        "has_nans=~(counted_nans & (nan_count == 0)),",
        "has_nans=np.zeros_like(known),",
        seen="ClickHouse/ClickHouse#118112",
    ),
    Fault(
        "inverted bounds are taken for bounds",
        "metadata/iceberg/skipping.py",
        "lower, upper = without_contradictions(*(decode_bounds(bound, column.type) for bound in encoded))",
        "lower, upper = (decode_bounds(bound, column.type) for bound in encoded)",
        seen="ClickHouse/ClickHouse#116499",
    ),
    Fault(
        "files of older specs are judged by the newest",
        "metadata/iceberg/skipping.py",
        "[spec not in tests or tests[spec](values) for",
        "[spec not in tests or tests[max(tests)](values) for",
        seen="trinodb/trino#18580",
    ),
    Fault(
        "summaries without bounds say that there are no values",
        "metadata/iceberg/summaries.py",
        "        return ColumnStats()\n",
        "        return ColumnStats(null_count=1, value_count=1)\n",
        seen="ClickHouse/ClickHouse#118905, ClickHouse/ClickHouse#119514",
    ),
    Fault(
        "global equality deletes hit files of their own sequence number",
        "metadata/iceberg/deletes.py",
        "(first_equality_delete(deletes.numbers, number) for deletes in (scope, self.everywhere))",
        "(first(d.numbers, number) for first, d in "
        "((first_equality_delete, scope), (first_position_delete, self.everywhere)))",
        seen="apache/iceberg-rust#1759",
    ),
    Fault(
        "entries of deleted files take row ids",
        "metadata/iceberg/manifests.py",
        "        if status is Status.DELETED and self._live_only:\n            return None\n",
        "        if status is Status.DELETED and self._live_only:\n"
        '            self._row_id(Status.ADDED, None, file[4], "")\n            return None\n',
        seen="apache/iceberg-go#1295, apache/paimon#9245",
    ),
    Fault(
        "a branch is shown in the schema of its head",
        "metadata/iceberg/source.py",
        "metadata.current_schema if is_branch else _schema_of(metadata, snapshot)",
        "_schema_of(metadata, snapshot)",
        seen="trinodb/trino#30970",
    ),
    Fault(
        "names of nested fields are not mapped",
        "metadata/plan/projection.py",
        "            name = stored_name(wanted)\n",
        '            name = wanted.name if "." in path else stored_name(wanted)\n',
        seen="apache/gluten#4530",
    ),
    Fault(
        "a column that its name does not find is found by its id",
        "metadata/plan/projection.py",
        "            found = by_name(name, level)\n",
        "            found = by_name(name, level) or by_id(wanted.id, level)\n",
        seen="lakehq/sail#2266",
    ),
    Fault(
        "maxima of timestamps are taken as they are",
        "metadata/delta/bounds.py",
        "max(value, _MODERN_US) + _MS_US",
        "max(value, _MODERN_US)",
        seen="delta-io/delta-kernel-rs#1002",
    ),
    Fault(
        "bounds whose offset was cut to minutes are taken as they are",
        "metadata/delta/bounds.py",
        "None if value is None or value < _MODERN_US else value if value >= 0 else value - _MS_US",
        "None if value is None else value if value >= 0 else value - _MS_US",
        seen="delta-io/delta#5249",
    ),
    Fault(
        "time travel goes by the times of files, whatever commits say",
        "metadata/delta/commit_times.py",
        "        older, recent = self._eras()\n        if self.in_commit is not None and (",
        "        older, recent = self._eras()\n        every = [*older, *recent]\n"
        "        return self._latest_at(time_ms, every, _adjusted(self.listing, every).__getitem__, after_latest)\n"
        "        if self.in_commit is not None and (",
        seen="delta-io/delta#4294",
    ),
    Fault(
        "escapes in paths are not decoded",
        "metadata/delta/paths.py",
        'return unquote_to_bytes(recorded).decode("utf-8")',
        "return recorded",
        seen="delta-io/delta-rs#1896",
    ),
    Fault(
        "an empty text is a null partition value of texts, too",
        "metadata/delta/partition_values.py",
        "        case dt.StringType():\n            return text\n",
        "        case dt.StringType():\n            return text or None\n",
        seen="duckdb/duckdb-delta#342",
    ),
    Fault(
        "the name of Hive's default partition is a null value",
        "metadata/delta/partition_values.py",
        "    if text is None:\n        return None\n",
        '    if text is None or text == "__HIVE_DEFAULT_PARTITION__":\n        return None\n',
        seen="apache/iceberg#15332",
    ),
    Fault(
        "the last row of a file is in no set of all its rows",
        "metadata/delta/changes.py",
        "everything.add_range(0, self.rows[file.physical])",
        "everything.add_range(0, self.rows[file.physical] - 1)",
        seen="trinodb/trino#23229",
    ),
    Fault(
        "rows that another vector brings back are no changes",
        "metadata/delta/change_files.py",
        "            if before is not None:\n",
        "            if before is not None and after is None:\n",
        seen="delta-io/delta#1701",
    ),
    Fault(
        "removed files are no changes",
        "metadata/delta/change_files.py",
        "        if added is None and removed.data_changed:\n",
        "        if False:\n",
        seen="delta-io/delta-rs#2579",
    ),
    Fault(
        "files that were only rearranged are changes",
        "metadata/delta/change_files.py",
        "        if key not in removes and added.data_changed:\n",
        "        if key not in removes:\n",
        test="tests/delta/test_changes.py",
        seen="feldera/feldera#6154",
    ),
)
