#!/usr/bin/env python3
"""A partition value is that of the log, though the file holds the column

Scenario daft-delta-partition-values of harness. The rules:
- delta V1: The log says the value. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization
- delta V2: Null and the empty text. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#partition-value-serialization

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, p string
{"id": 1, "p": null}
-- DuckDB
INSTALL delta; LOAD delta;
SELECT * FROM delta_scan('$ROOT/table');
-- Spark
# pyspark 4.2.0: pyspark --packages io.delta:delta-spark_4.2_2.13:4.4.0 --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog --conf spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration=false
spark.read.format("delta").load('$ROOT/table').show(truncate=False)
-- Trino
-- delta.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL delta.system.register_table('default', 't', 'file://$ROOT/table');
SELECT * FROM delta.default.t;
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM deltaLakeLocal('$ROOT/table');
-- deltalake
from deltalake import DeltaTable, QueryBuilder
table = DeltaTable('$ROOT/table')
print(QueryBuilder().register("t", table).execute('''SELECT * FROM t''').read_all())
-- Polars
import polars as pl
print(pl.scan_delta('$ROOT/table').collect())
-- Daft
import daft
print(daft.read_deltalake('$ROOT/table').to_arrow())

== Read 2: columns id where p IS NULL
Must give 1 row in any order; all in expected/2.jsonl: id int64
{"id": 1}
-- DuckDB
INSTALL delta; LOAD delta;
SELECT "id" FROM delta_scan('$ROOT/table') WHERE p IS NULL;
-- Spark
# pyspark 4.2.0: pyspark --packages io.delta:delta-spark_4.2_2.13:4.4.0 --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog --conf spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration=false
spark.read.format("delta").load('$ROOT/table').where('p IS NULL').select(*('`id`',)).show(truncate=False)
-- Trino
-- delta.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL delta.system.register_table('default', 't', 'file://$ROOT/table');
SELECT "id" FROM delta.default.t WHERE p IS NULL;
-- ClickHouse
-- clickhouse local, started in /
SELECT "id" FROM deltaLakeLocal('$ROOT/table') WHERE p IS NULL;
-- deltalake
from deltalake import DeltaTable, QueryBuilder
table = DeltaTable('$ROOT/table')
print(QueryBuilder().register("t", table).execute('''SELECT "id" FROM t WHERE p IS NULL''').read_all())
-- Polars
import polars as pl
print(pl.scan_delta('$ROOT/table').filter(pl.sql_expr('p IS NULL')).select(*('id',)).collect())
-- Daft
import daft
print(daft.read_deltalake('$ROOT/table').where(daft.sql_expr('p IS NULL')).select(*('id',)).to_arrow())
"""

import base64
import gzip
import io
import lzma
import os
import re
import sys
import tarfile
import zlib

# Paths in a table stand behind lengths, in pages, statistics and sums of sizes: of JSON, Avro, Parquet, ORC and Puffin.
# So the table's root has LENGTH characters everywhere: the name of its last directory is filled up. Bytes take the
# place of as many bytes, and nothing else in the table changes.
LENGTH = 200
HOME = "/".ljust(LENGTH, "_")  # the root in the script
ROOT = "$ROOT"  # the root in the story


def place(directory: str, name: str) -> str:
    """The root of a table below a directory. Raises ValueError if the directory cannot hold it."""
    root = os.path.join(os.path.realpath(directory), name)
    if len(root) > LENGTH:
        raise ValueError(f"{root} is longer than {LENGTH} characters: choose a shorter directory")
    if not re.fullmatch(r"/[\w./-]+", root, re.ASCII):
        raise ValueError(f"{root} has signs that formats write in other ways: choose a directory of ASCII letters")
    return root.ljust(LENGTH, "_")


def rewritten(data: bytes, old: str, new: str) -> bytes:
    """The content of a file of the table at another root."""
    if data[:2] == b"\x1f\x8b":  # metadata of Iceberg, whose size is recorded nowhere
        try:
            return gzip.compress(gzip.decompress(data).replace(old.encode(), new.encode()), mtime=0)
        except (OSError, EOFError, zlib.error):  # damaged on purpose
            pass
    return data.replace(old.encode(), new.encode())


def write(table: str, root: str) -> None:
    """Write the files at a root. table: an archive as text."""
    data = lzma.decompress(base64.b85decode("".join(table.split())))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = os.path.join(root, member.name)
            content = archive.extractfile(member)
            if content is None:
                os.makedirs(path, exist_ok=True)
                continue
            with open(path, "wb") as file:
                file.write(rewritten(content.read(), HOME, root))
            os.utime(path, (member.mtime, member.mtime))  # of a log file of Delta, the time of its version


def main(name: str, story: str, table: str) -> None:
    """Write the table below the directory that the command line names, or the current one, and print the story."""
    try:
        root = place(sys.argv[1] if len(sys.argv) > 1 else ".", name)
        os.makedirs(root)
    except FileExistsError:
        sys.exit(f"{root} is there already: remove it, or name another directory")
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    write(table, root)
    print(story.replace(ROOT, root))


TABLE = """
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vp$6Ww2o(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%6cfNA;fGWvS&qw*c+dTn0X~;8nl<WX9hIX@HXd>}0rGa**@6j{2cmiicO;9(eiFZrG^;3C4e*~QCAkT$VDzm0mk?A{N
41qBFIq6Md;0Cx=%gJ0(diz(dCXqZZR0~Qs+zsWAMhvC&m4&q7oCrk-8F;L2y~0WT=Y<2{t>88x^u0^?MI$B0p=ir2rHuwO!#oaK
iepESP*jQe(#vQz@-drMroO)=N<awp`1%Yz?vRfEW&m3yt&L<_NPEi|AbH7$hQ;_M9XAo8<GludRqp(#cq9z?2dCK#MtmA!Kj*Hc
$nqVnW9}VEX%hK`@)afWxBK0@WpGlWx3t%KKk2)&EVi-cyQ}*1Bv6BM`ynkb|8ClyG&0y4?b(CMlG)E?6O?!Zb7&e=7+X^Txdn?S
MC54va8)c#$b%YmiIX0?*mrAI5YW}|oi^>ZLNPj%ac(7P+yrc=nFG#AItR3C=K%u8#0x@ve|Zx~&t>_#IM6=B=7B9<PQn4O24O<h
8GI}#&sKBrJYiX6o|#Lx`%oX?P^EndX1iXMY!-_eEls|657@s>g7#`*MhNmsD4o0Ffi+6$R!Q<eh3>Iz>7kSt&#)I~>?2a%G%u(W
8em~W1<TW3yV@qP4H1NW^-1A>8!#ZUeS%9>ZMkSajGt<_GgsF*H3o+r9t2sGnO1fDkZy(KM?_BwZ>^}m-rt@MO=D+2@H4YS<0v(8
TdxHKd?<qnl4nT);KDNp1Jj~Cmb{#^7x=hh-Yc%r-b4(diB9C@Jsh&Lhs>b!GgZyf2JNpQl0KnMgzz%`lU?}!bcrVY?jU4XZ!{(0
8S$7amwewV=ygZ>v~BXQJ?d{eV3D80iZ_`1sR@g)ChDOfCFWM8>nClgh#g~{c4n}Q=}wlQYY$ALBIb_)!V8+}LDmLvANzk8R9|ow
6xqnWo4~>3QrE{~81oEftj@jUWte$d_IlD2X_>A+e$^a7%czoRxRPPv$VVrGn+zbi#fEw6=FxxD2Aw!V?5CtBQ)%;m<=^RBA*gK2
?!{^u;=9i#Puos&mL6`y{yqlIQ>-dd1;>au;5>V{$&i<uk!n^NOGBshN&qfD^}xbxB>(d0Vmejhm5ff>qR|}YlVj7OxnzfUmpi^_
BxvYZ9KIAm<j4-eUn=xOU+R2x7`dqyOc<cKmG$4IYGtlG(wzVRjz&d!;yS%+00H9%fS>^Y`@5gavBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('daft-delta-partition-values', __doc__, TABLE)
