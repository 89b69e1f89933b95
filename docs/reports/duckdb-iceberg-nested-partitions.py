#!/usr/bin/env python3
"""A field of a struct that a file lacks has the value of its identity partition

Scenario duckdb-iceberg-nested-partitions of harness. The rules:
- iceberg 5.2: Where a missing column comes from. https://iceberg.apache.org/spec/#column-projection

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v4.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, s struct<q: int32, p: string>
{"id": 1, "s": {"q": 1, "p": "eu"}}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT * FROM iceberg_scan('$ROOT/table/metadata/v4.metadata.json');
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v4.metadata.json').show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v4.metadata.json');
SELECT * FROM iceberg.default.t;
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v4.metadata.json');
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v4.metadata.json')
print(table.scan().to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v4.metadata.json').collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v4.metadata.json').to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;CKHBja>jTo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`I1Ol7)$;BU&MJ)8@%4xj1Fx^$$sk)ljjU*N{gky;;ATW3FL`LlR`(=g6F6kTv=o2(!Ycy-qsS3hOQer~pA$F0oqfvs{8P
^phHsy@5EycJYp#zkdY|u0z=2zyt}LJ+d5ID6`Wm%k`un1fmPLj0B!&G36I03ML?=K)Cgh8H{l@J8(w!Z!s8tIFA0|sT@{7o<SBP
g|XqIla<k`O=um}yqAIqNp_Ku6TIq`t*v&zB%KX*cGH!~XV!N^SxfL-sr@7Wc}BaaijbxO7h3RzN+06055y_yDu4M%JS#KEvh#P?
idj~a&ta=hUqM|tKvz6{*k|5B+TFwT07}hG&@ML5)g{v&v7m7*<0q<1QZ@Xa!9yDNvvs+7P*Fv1+KxN~Ke-TsAmds$8C@mo-Br$z
UPW+`@=8C;tf63hGXtB6WjtH@vEgJFb)!^A<#;$<yD=kDuYf3g`<k{0Mj!PxvjQEq`XN@dV6%a*ui987JXSql&G~@T4&Q+TpL*E7
1bkw&g4RiB`<#9Q_eflu;(H>+@HFuIbb6)>&c<qHywxL4<f1MY!Qyto!u)8HPfrFP)XKvS6a@+9zSeeV;LAX6brNxiAJ8Y%>qiHM
lb{>EtR+~~1JZ5nPuA!&b-@|y-6p}SU5z*&*NkroM?u15WfyId)|$6CV#_SVv<38u@rqUD@5Z{orvhNmENmA!kvr4xqN|c}3?%%W
|KJUesIe@W-*lfGm;qA|Ve4rt|E`~=JtBPRn59?iD1Q7F#n?AcolcKl4ijh?8l?4!9M--!SQ}(4)bAP^wpfffd9&8ACvB@dFO)N&
^y;9EdjVLzyR=UTQAbitJPTW)U#JFVNbwOYc#nRG4Mq+UcX#BoI^8^7qa^zCJt}b;+~lGYTvrgN*;NzrQ!|5%&NZK*NZrD?&TvQ{
_LcgC>6$*+(lx3}EF4FUZS|8P$g96koXP?A=11_@AbZPHyVAHm*P*z*$;-ROV~h)QZicw~eg@+HLur}sZP3R9o44UjvPM`znxOk<
L+KQCaD&~@Dn0sZ#+R{+>ESv8Z$Cc9-MQj-^88#cdjXo9b0RiGl_dk`8CD|E3C{AJ$O1Kd-#NIzw2mK(q^THCK2wDZt@`F^zh${q
NYY<AQH@}yJntDt$wOFI7di9ZQi{FK?}u;%3V69ju-?nA7h_o5cZ4={dt6b^!GLYW+W{k3Vn-V3^0qUuVwgg=BZ2BtBKXXvu$8T_
<kbL&r6wk#^l|941V|t06@3_uX?HDHmYbEBJ*mc^Qi2rSIJFFqPD`mEXw~;}+FZ1`D<^5Y@QYNNcfpgE1pdqP6TD|d20Olh(DL9P
ZdJ~6$S9t=a0*2c2wIi`4%$niJd=szxn8QQd~>hte5a?1V#|D-?1`$+O3x{GEZ~3RYh%H8%PR4-N+!Ykyls8Q!CrEU39pXM-l4YA
PO$_8Dw7?k`=O0dT<^1Qo9siwM)ZV}<-GxJ9%}?V>3x{?UXwuYy=~CxZf{ay;Zo4|e#}2cvWe-~8D{a1S`s>@*z#o@jzyKsNttl8
Heas8c$8d$8OuJ8F`%?JJg(bCv=qtM6}JhbG6vJsQr~o`-72ozoVvuF23k-2(wE}d#YV1fxUWq3of@S!i&D%Sh6N=|sCEv#QgNp2
*BWEQ07w1Y_|P9mn!5_e$s;fugA9v%S+Q$+D!<DLk_2G(wW4lrC8UJ;yt<l*p*4xJ8NNJHQl`|yqYYu=ck6D~S1MJbj0>qAe0N`Q
4J^u@nC-jb+$!-6HM)z-+1uj1^lK2tt71bxOG}oaExM<e^0G4L+LI$C`x9Pa4WK+u&L+Ib6+5J`qkV?}8K$6gO>=AtI~Lye?e-H-
;|$~)8Cwa@tkmh;zG?0_SP8!F#wq5Cw@V#SU)|&>?LO^($6#O%F}gGYKypax`8sVOx((J+OChmX{(dMc8ZMcf+9e`8Rq%NaTgqWA
mq`5>07cfrUX2P;caXm(HztdE?-e>Is><QZd~S;|@V4x<Zb(L<2}F}C%*y7-&!ns=Y0L*=DL$bRE}4?K;778sLwZ9G?-<bPpUImO
**B0o$5LBCi(o6TH_6P+Vsx7OH|O%39px3A3P16{kQOVgLcHbj$#g_+eq3`>O2c*_yL=oKEe;rNa@U{j4|U$&b2$}^7ZbgX_!DV~
F_QVJ#{<$6tG+O;YtIrJHPIzauZ-cG)~Gr<q#73&Mgy~D#hxw4kS%~jQsb=3)5>TS0@JXb8zT#TseSZ64|Q%JW;B*t(&O8__=ILo
9WxzmwyWym#8Z`q7_CNk9QSCV%=HVf*W5-swctNL{D-nP`ylXFksSQy?=?owNLNC%iz0x)bS$5TQM&nz3-G1g5|aL$-sHgvr~_7-
52X62**9)W>x4kZ;R6-Ph%AxF>?@0c`DT3^n9*-Mc)L`1QBaGYZxbNyhRQHRbnqKMvr*PL(Q4n#No`VVy>9+NE9_Qi?yseHO<s)W
xT8ulxG4pE!s{*F?GrNLOi8u}A-eh1UyEMw?Vcb|QKGovp2@wy3rxxIqW^-__9qKW>u@Pfg`N7Ijwk<21p7S9D+>hGzVkCnm(?-p
!9;uTf4`5lc$9_%@ZmCCu~Wde@JlgSZ3|Xz3=Ar%FBQIDw6nvZ(1i?pI^n+MP=JWxmHS)aUI%@S2$57oC}!&fsvNhHUG^^I?-EEb
Iq&j)HUShzpYwzp7@d%G!gVG;T&iUkA$GH>8pt|Yu-B)CFI^q^kU=1XSgHCaaySmzjYHm!4Fec}00000gKA?|#@CNb00F5HfbanT
W8OgFvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('duckdb-iceberg-nested-partitions', __doc__, TABLE)
