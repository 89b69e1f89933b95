#!/usr/bin/env python3
"""With in-commit timestamps the time in the commit counts, file times do not

Scenario deltalake-in-commit-timestamps of harness. The rules:
- delta L35: In-commit timestamps. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#in-commit-timestamps

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table

== Read 1: all columns at timestamp 2000
Must give 1 row in any order; all in expected/1.jsonl: id int64
{"id": 1}
-- Spark
# pyspark 4.2.0: pyspark --packages io.delta:delta-spark_4.2_2.13:4.4.0 --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog --conf spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration=false
spark.read.format("delta").option("timestampAsOf", '1970-01-01 00:00:02.000000').load('$ROOT/table').show(truncate=False)
-- Trino
-- delta.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL delta.system.register_table('default', 't', 'file://$ROOT/table');
SELECT * FROM delta.default.t FOR TIMESTAMP AS OF TIMESTAMP '1970-01-01 00:00:02.000000 UTC';
-- deltalake
from deltalake import DeltaTable, QueryBuilder
table = DeltaTable('$ROOT/table')
table.load_as_version('1970-01-01 00:00:02.000000' + 'Z')
print(QueryBuilder().register("t", table).execute('''SELECT * FROM t''').read_all())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vp-(3JQo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H$_Q_VW^#Z*(|$wDAwms8dINp#nO^q+I4=wJa?10{z~?9$B3_^)un0aBBQurWHDi$Z};oQb;xQnJOHCOWQ6C|S7C++ZW~
+y2H3S^dV()iv=jtDZ%P!7dp8i1M}@j#p7(aQ_$PvuC!2G5qidEcnR9bjl_zTnFXi#^+P?<%nJKz5$yqYA8N<$+WTA*qph*pE6kz
JF^Ls;<p9jU}&S~O|skHhM8l%G>#UP)geAYTcXTEiWf=AYWGrhRUIxb@3JDL&%D%tv+zBDkEW}VyUVWEv7rzKCfgZ~C#8GJBQOo5
>O69wsMj|8!%W`$PFg?PwkJUYw<s$Mq-VJ+B9fG@AAya6Zr8^*kdtxS_vbCAc-&iJq9ks9ofd=Opx5qW%^zsN{ou1j6hR)P=tLa}
LpA95B}_Rk^;mZaRpmrUdMEgI*8PLzA*fq+6PZ(A*$&VRuQ4E2rysAdt=D`l?4Yfn0?<9|@CpNTNkky|!VSz%-j>nohe60Z$J{#~
r6zgcK|`w4IRI>^Y34ytz7J$Sri9vL&5;u5du7c=@29a#F>HaJ@j>qGL&B=K!isrF5|&nT*m<C|l3jgdC&xnIY3VdNPyXeuni-N_
-r^@kvv`<lAbl(}9DIxK2{zPnQBuN_hS~lDF*rjK%@7O!K2z==eALn0sghb!JOLHE$<vcXk`rrw#ZY#iKkdqEimq}3r^%`?fhHe>
JeyHB``8k+P-yLG{6gEB2d&eBb|9NSlZ{NpW}UAkHY%JAV;HQfvi6B&qT<AQW)2JcQ*bTT2`ge03HfNQ)hiSU1hL<x8O&&M)OoJJ
x;;=bn4ZwiT>q-(eRkFPcXRwr6CBP4PYQ`Pm8}9(Ze)^93jd7_D`9Iq*nrOH^GvM%(8bfA;?<u@B(7W&o7?EcCE>C&RoIkf0dqOp
Q^Qu;pDy@(D##D8#$%8w2q&k4>-nD_Ib*dC<@Z4A<h)Cxm;gPjbFC)>ga^pj&PmxdrdRKzD}pDka(~07?%qBqhQ)mZAExdApbpRd
Ie{+$<VK<3_}u_k4=(hn|4|dW@Tiobbh@cF)k@i_6h$ew>|jn~M<n83uaOV7Ew1zL_^1fD4zMFK%G=}898_5|#T{y03{+&@@FVI+
@L*)qfZ@gRmO@)7t-o8Cj$)54J9z30#{)};TnVM83@&(uH}Cf{QdGXHz@9xYj`gwWXE&P4pP7QUNk9MqN8_ZW?QeCw00H|4fS>^Y
4LcemvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('deltalake-in-commit-timestamps', __doc__, TABLE)
