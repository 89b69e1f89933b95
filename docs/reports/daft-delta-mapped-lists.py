#!/usr/bin/env python3
"""A list is read under column mapping

Scenario daft-delta-mapped-lists of harness. The rules:
- delta T10: How columns are found. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#reader-requirements-for-column-mapping

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, l list<element: int32>
{"id": 1, "l": [3]}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vqeq8`Eo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%6XxXQbgQaC)9k*35W4`8Ym%O?Oz`2+tkgyHT;J3s2k&CS{feYVkkcuE7$p2AI9ASOJm<Aa}(BAhqoSbnNE9EBx4_>8!
@Qlss`|5CB9u&yZF`ecj`94}pX-OvlIRhM)J0p%K@8&A8o~nL8uJ|x|ZxrWyn|P>x02jGf5*l9zy?qP2*g*((Kt<h|JNeJs+ZKGl
v27+Hc!5_XyC)=&EJKfv0;c$IF~DGKLQNdl?IwUxMdkq4r%;A|^9_9FeGi${e1D6adS$r!WO53;=Era-0K~^P{shW9@_t#?hvXGR
soeH*5_yUF)C_brf@FYU*^fsGXGgAVL!X6<x02t?`-N7KFa&ZlbHqMtBvubzE{O_8AAXa&n>M7-sthc9o<<oc_A8`wU?fvFTU+EA
f6ZeJk}b>`&yabN3VT)E(zIHSPsu>YNh_|FJ=Gmvt3;m<`M<;V5$N3KF#tvwFY%*bk6KFW$rgv;gRD}qjcAjRFizqvx+MjggjipQ
toF+yd<-xk>z)cQ!6W2;vs+?AqN(cFvK(`%<j=!zV|9%0RP~3r8_5CDfEP#r`zQ(A%-wt$8!EvF)w>dlSJ$RbLW9{qKQ$@qEU2`I
P$fsmzOnGBl|EwpIdIh7cS+^wu_&{l;_ob$L-8*yC8*Nl-a<}$ZI34CbOPh7HYadw3n{Bl<Df-o7;WK~rH(4Vf>~}lkN{=7XsErr
l!@UMr^Z~|Wrh;sK11!cR>|#m`t9ABLWUy*#;z2y5gt(%W~VduOUuuWJLb62QIWw50FkOJ9S|snbJf&qbz~{O7>hf)#ydEu%1tBt
Ec(hJ+(3EQ(g5Ad=1@A4XZW3+vFhXgp#Wn!g{d6XFwVmi#R#|!lP9<>oFzVuZKM@CTWZ{~`{x%nhS(^`ALFhUi;+n46CtXajWO(I
5OG+`neVs7a<o4vqZt3#0<)l@drNoZ3ya_>h|`jqYfq5!<16FK+_k+)YI?De41{M6>JC2*`}sW>K~iM?FB%;JHq0WG{=|Zc_yPzs
*Px9gD`KH?n#+r<pAG;JuGBxR5#+jD1MW~ycRhlr=u_$z)GTtpa5R?#$5QoHZv)@)f0)4a<WT}(ic7Ov0ec{&p)bRr#?18by|_Dy
tFn-Kxk4)o7F&Gzhf4bq<)^|m6oEmB&Dj=j)~@2Z1GTO`?LTZCk|ZHg@~aj;^h>w$TXr2Eg>XP4N^uREU)2Q~Mfvx!?3~4dSqk;+
=~LHy<@H9XLYh|`4qc%9W|9&nk}#W}zE?Hb6!61(8m1#gAVJWSFe{ojq`N9J^VynM;q*ERmLs3v!OjlCd^{~Oj(Jd@mKWhyWVgJ+
OV0b={;pN#W5^zF3JP1w*q)gyWfW;x7aq+VMfamWIgDMFskig2RhBf~g3tW1H@6<AKnquaoZ~BufB*mhMLbPQ9CiW=00Ei_fS>^Y
lUagavBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('daft-delta-mapped-lists', __doc__, TABLE)
