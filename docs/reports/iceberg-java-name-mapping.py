#!/usr/bin/env python3
"""Columns of a file without field ids are found by the table's name mapping

Scenario iceberg-java-name-mapping of harness. The rules:
- iceberg 5.6: Files without field ids. https://iceberg.apache.org/spec/#column-projection
- iceberg 5.7: Name mapping. https://iceberg.apache.org/spec/#name-mapping-serialization

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v3.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: a int64, b int64
{"a": 1, "b": 2}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT * FROM iceberg_scan('$ROOT/table/metadata/v3.metadata.json');
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v3.metadata.json').show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v3.metadata.json');
SELECT * FROM iceberg.default.t;
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v3.metadata.json');
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v3.metadata.json')
print(table.scan().to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v3.metadata.json').collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v3.metadata.json').to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vt#$5n1o(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%6K}A5Bp*t^Q6scqqOsX9brbfqKBUm6hK~}Q_uD=-1{~cxlMC+o6Yr5hMjl8&tdmXi}cM`QrNcyi>_7Qq8M=v+rs-E~{
9v4?JlkQpDVpZh|9VRN6i&%Eon$v}xOyt<?-_EBzK$%GceYt#Nr)REOl=r=V-*40oQP0fyqKmyVRmJpb3^w%zq0^tQ41!yViA1p+
xU#dFq(J9s<iYs5=Bl^%Dv<5*6hiOBi*M&^&YC63y8h%WYsEK6DFx&@Azr#pV|$g6Rj<<tB(TnaAJRSGQ=l^t5|qTq<V*UCp|HH@
EyZp1VpD^i%X?Di9Vnif>g?+QdDM7%S)Cv+2d@fdW){+4SE3ERe%hYBmi1^IQ|&{UTP_|9;7_q}a=EkU!vlNvO-p11_qk@=)E_y}
);p1LDu?1zn7H@U>3k}O6gqOd4OR^C2X|A@pFA9=f8Fc;o|L;Mw0lKT^Tc)gwJoYJ`ckSqaP9)Tp~uRBlY}*kv?ek9OK+kILR-5Q
$h1E#^~4$paCwo+)nigpWMKF-@CRzR*%~j|I0w$QLr^+K+Fe;YXKJ|gBnp1F*91?nv)B9X>Y-*Iupwf-KA2MM2EodeQQKoPW&Lg(
ye*A)6B`(8#AZw`Tq3L~#RQu$rv*-dP_Nsc-E94+Y&rNTWZ}R0e*e5mNb0@z(Gv(Zm7eOIx}(iQUHFz~keJqgb<koDwIx5czpav}
`LscGi6Hm?bG}`+qXwDx_~N4omdo=PA=u;5Dfpb-^toj?tata-c6j!GPdK=(7Ua*fy#@PeCT2S)DHmiS(1CUxB|{~(BZL7y{L<jr
HN2ro(9?QlG~;=Pqi+OfipM+f2f8UU_TZc+jDu0=JDSsg6VTX*KeXv|tU4=|Fybo*p*7sp71M_&O)C2?a1-pm)Aa=8Mo+sS#pLMo
=c0scmJXmxKSV*QGVGKloF{9zjt0e`$dKlcE3aNoP~T?ZJnt%OGj^sNPnG3|BU9Si3OccpE7G~nuaH;GE;A|b2);nIW{>DQ+NCOK
a=2WI5;nhD9oZp@?i2cdGHZo&Zgl#i`LDD!G!9w2pxn#@64HS2mw)IxXgf0=n{Bb9C@e)zaf_j*e!XxIZ8hG?pofRKz-wmwL#I5E
5p#4HTy39#df!%na6sG0hr?d2ic^&WI(A?9^R#w?5upU#w-X*r2GI!_Q>{byGf<+ES7?IM;5~<v7gi_7TRtWNKFD@c6WuQF?tZqd
_5wWYa=?G7^_&HuLR#u9v#V`@i<~DkJdFJ|k6i|$Z?!u2D{}YP$HY>DY%tC^D$j`mf*Z~PKQJHS$)ZUvN!Z&xAAQdwL{>dXVVsGo
C<Vx26loeSQ`L+)Y&(y>(4J5a?C0JKbF$?EN%tQd^QtrpN>jD?$Ld45<)_<iI}2tTF~dzH(8b}NIyRk&7L`a?$g&#Twda1KbFmtp
C>I!f{;HZqM*scCl%25C0C8gv>b5kfGR8+}+npEvYd~33DhOgzph+3#6OIiI`vA)Q5P|Nl`Q#*<Z!h8l(I5jQCG?vo?u=dL#{KMb
a!^x+<Yf=2o+ldwkI9$nf;HEKY5w)xzRQERrC;c&*Koa@Hqnh}cL)wiElHPLxH(r!b5q$dWU50TM7l(&5@6inrjJ-x@_C*28|X}S
Vc1>@4ZLo-_h|y7n2kT7XNpD*&#iSL=Tya{YsLM#0I0Fg7U);SlELb?Pvdw6_3p!i=ceWR5W^YXIZvq0VFQS48e2}r0k*4+XhkU2
;)N9#`ti$79v=`Q1uvVTwKnw^{0Lwp#6*=?i^A?DhziqL?8H!fy7a5^FDI9;Byd}XRsfr#4-v_yV<HNMN^&~LHY6-rZzBz9sDf)v
+~=24n_&7~vwn56MP`;mVxP`S&_p3RFJp60+CNqh0cf8uULs%d0Cn@UOi+(oa3n~^OWbOowWe<gGK91m=#Fo3!mwz>57#d;SYmF<
>edVK%o;w%LKFe^DxQ1D9d)R4#BBGbAp{oU=<s%mOad4>Mtsj?U}(J_5*cJt-FY^T<x!PH7|v3?^zv{F_0xV@zukwxpAuyMMV=={
+J&UfGnv;d<BuzFYR*JP;9x47M3sO~S7RP~i5FlQe~N0__{O_+lO6PQ2>fcfZ3j^A0(!3g<q>q32>pnwz)XSF-FKc3bRWrG`c>w3
aS5HP5g5C8ib<oLci{RnJ}h^+Y-wjNrSk)L$y`(Rf`Il%_}Q$1e>8CKWSG+^8%A~>o!XRO7`yEO%`-MMy1kA*L!~8-ZZfQ*;j{X`
gMrPZ?v`&*JyYODwyQi<EPFosS`4VovsO|$nEVR&?b8Muk;V?P=>FuH^iTE4o+dg}`+J>*pj6b@^8>}IW`|xN?NZtkvXFxjWoflG
qTh5u)<LBXW>-Nu56<RAgD;65Ko^v2>5{MPDt8`&2;2WiQ<{k!F_CaVwEc||AX6thL<zWE)tSXv)J}yq^oXVeiBJ*M{q7QKzj9TJ
{0t>ryDN&-z@SYPEUqN8TPr&!hyVZp)S3rR%vUh$00H6;fS>^YpChw3vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('iceberg-java-name-mapping', __doc__, TABLE)
