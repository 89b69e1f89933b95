#!/usr/bin/env python3
"""Only the blob that the manifest names counts; a vector that was replaced stays in its Puffin file

Scenario pyiceberg-stale-deletion-vectors of harness. The rules:
- iceberg 4.17: Entry of a deletion vector. https://iceberg.apache.org/spec/#deletion-vectors
- iceberg T11: Integrity of deletion vectors. See rules 4.17 to 4.21

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v4.metadata.json

== Read 1: all columns
Must give 2 rows in any order; all in expected/1.jsonl: id int64
{"id": 0}
{"id": 11}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;P3wm?Ogyeo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%6cfNA;fGWvS&qw*c+dTn0X~;8nl<WX9hIX@HQZb|Czothp#A|A-5R`j(u#t|301j9hqskKga<x0xZl`r~M!x~G7bl?W
O8yle%J!h|+fSg8$qGO)ixlZhN7bmhVnLKB@B8nRF}fVOgyda2F_3;XiUN-+O2^v6Ad8K-J`llacOw3GAOf{PH9Rryr{hQ9v<ba+
6|zq*mO=qdQT_V|kaxWRx<jq;wveQkQ_^^?`YnD`oacRXIx|=JgVGjJ{ac+&-Q7o0WSbxzdNIPH^5Ljf;e#^DzOMKN+0hm?w)X>J
c-V$2rukif<Eodbm;k{Kp(im!wJ=qELBE-@dJbP5mfQ`1*A=4~BE7;f(MqU4Z>e>!G&I8u6i?LA6+XL>rqB0^2j)wI?;yCWxV3oa
!ApDk*Rv6Sg>4Dtl)1i>=$`$=#``;CSQn>rU+~ADy<doO%5cx?_BvU{&}41&8Rqmw)2WgiDd1TWxzN2p8E<EF0qzOX72S8Ak$bZ+
x3iisq78+u0w=3w<!sTVaZeO0^<CR3q_hJXVu6EX6N0U+MBVKKW`EnAY7Yde#npbwN5^4u9^F=<l@*(INqm7$UAZDoI;sT;DT#ps
^j#e3kC%@C#)7_8KpWU3A|e_b!fTiPMy!>~?iaSqO({dG5_JU3PE~&Kw8r?T!D#`oRb0aM6^RaJhw91cE<K&$`jQWp<+P(H*;#kF
{~31#g~<wc3l&?{x5^(jd=0?)V_z=c$rtxHBJ`AQ>q|^8aK?I3&<C2I5)n6L;?Z@Hgf^|uO*A$_*FtS8Jq8+3DBr_0ot6__nuUu0
Y8fvX6m2hljBXJW`nc*SZwg94_{6{zw-#`Wmkd)4(#tQOQFO6z*Tn}J4zK=6&qf|!19u11d+@S5Md?OGyNjdu#bA;wW$OAA>@22A
;SQt~1`J4(MLO4Ak9t@kK=QjwCFiNU=ef8DqD6@3eH*D<{R>8l#8P)IF<PO;ScLWMnv_*MYDlTzjvQV(J3&bum#-~u^BnCR=Es4-
HKL!_^SmOo5VHOZiC|u3MP4E95VbB{tTUq&su=QzUjJtzA|+_Qz4Y(_FQm+Mm=2iU4Gy9X>Cr<|qtjL!Vjs(I<q_Vx#vBb5q?uc8
xCkRv4L!4m)_5JJnX&-iilO%)G%fZq!7%6H`~B2!xOk$WBX%N*xR7CD(Gg)tBd!;4Pt+9+jk1J59B~rP2~tx)|Ewjey)!`N&sy!Q
5Z#X@3~``hs30$rG{_Li*{M>FvM@z016GVuoEbx;d@6d@>&FTIZH^?|T}i8kG95zk@AsP-M6tO{*#8NtT7cH|c<E6;i9D7}C6n<t
XV8=(1DEI=5W(|cu3X1>lH|6d`0mpV(^$&5`ou7+^6w%W?QXuX1cXQn(>ENC9WMFVM`*-LyoA(h+3THvYCCU&)Lzy9hqqL16@Qqj
dY;#To?D#rYD_J|9>tzKIT<0pKO`x0aKyqmW!aohvmr32*~CKSKYKTF4k#Ph?%Lgp_`2g6B0ogy+)Vaw8?e-+l4L)WA10kJ!s6S4
-+g|S!8ft3pIsKPU`ua2E!KLQ{&TzBGZwh@8GuzHx`KIMD+Rw?ZEyuvqTi-VZUZC!9YnpLd>a)+00YUb>jx=X0in`n)WR1{E|X*I
l6Un5qUFL|Cd5l5Pb`)Od+Y+0<qFV<{9_358B#Yd4|Wjb-F@6ha_H@KPpRvjxo?6_goJ$Dr5w6ZeQ8(h9HxxL8xiHs$#;6HnB1eY
*5_Wc<Lo7!r3P(W&?uRR)zdM7i%`aN`oGVrF=XO_x{Lww2z0PTio(+D0PgxLeWjy7OY1~s-Nfz|1N{NWHg<l|%+2GLq0+GjZ0PaL
#1q4ZJsY2Tow`MZKS$wgA=%9u5OK8p#Vy1HLpfK;M)C^6XR~_HrI)3Z`tqlZZ67VBF24bif(cdxXSAECkbqW&B^Xx@F(!_)Y123h
?RW7T^MmpE0TbK0as3jAggq}?TE%~?oMDhRAN*dk!T5%xafq{rmaMTgSbGLKgAzTwFmTNwv7sFRV--r<rm7OJzK6zaxYZ5Y8$zg$
QV&ww_3&mS$PT<`EDI^0ZfW%TLDXHN4sPMfkdyVwr3nl_mha_<u?4W~kW<2;=ot&%8)UmY`V&_oFI7_ys01sr@)I15>2OnfuPykf
!k{v8?LB#+(Q=>O1wA^#ahLBLi3zx{Dpl$Dq!)B>8{x(-$dV5?w=Z1G6Ig2cdwYZ4$2&W9qaNra)^y_VJI~ohc)B^7{><*DhA+rq
8J!om_LMkRLR@<bvLX)fn1E~DtOtq0KeC8ARve+nDYVTd)-Q{#`kYtE_8&59zd4^sdq#Xy!ioZZK+5x}vW&uyaa^jP2oNgz3?TdA
`o=IzLYhsWDARM4!EN576TiaMd2p){Hhi%UV)|@fhccV@Pn7!we%?ou+DS&b7I8c2<p$=hX+UG+ScLt;#D7h7JCZ(Uw5{Ep>4Jz@
;>B6mT0?>Uq#T!KY1kiUs|wwcjTKKdzNE{TO`kc{<_jy3%F1p1boVm9fh&;%A9RGR3`E?i^Hk`bv82(netq-wgh8?Vv}4$z#z9PI
8-*;Y$v!&J>)8IFf>wZ$&^3o|lvO4`Wg>$p-qg?sq2xmDJ^}*DWny;}PD&Ed@hVSq<f*OP_ddb^bVNik*4N8Gu*XVk!ll5;idv$Y
wRhkYK4{;uf7rEL8yGi06UU2elQPAtzg+qG0FpdWWwh2+y|!_DBjjkNr?Y+=Q-s^>@NqyCP%ugO0*qoIe|;w9)lgi6y$y&3OPARd
zc-}BVB5kN*RLIMz6)@1%d@8Jq3Id=K=XBe1sk}t*uQHo1crPzDoG(If!%wk@%QqSmQG>u)qUdhV9P+z?$bg{wb=G|SSxO1wSN-T
rd`5?O~Ap!t&vUVLQ4>5T8pItnB3(ZVj-<Kw;aSu&aINBfB<rXskqbMQ%DGE(w2w);MWd!MGwBR@|t5SN<4WoDTWLVmrR?^g~04a
lu<<>E5>LpDl}a);d)?p^y&MhI<Y{sxiQh$w@@t*I8+bq8-sH{ryrUQ25o}8#_4b(eK^A4?sAzUpoZz?!oOEt8e^ja3fzMpdf`VV
L6oF0u~rEU3lH$@&4FLsQRWZdt3RaOW9sDcu%81asA%-4+lle5oXozStM|acBY#by=QRl~=V>N&d?-Oji1M_ysXI2586XaEt_(zk
Pr=^G9+qu?nCIiW8RS8`cQL$Kuc}XgTZI>3&m?7#0wl13N2|j-ElS9cq1a;IQ>_=|O^~N44U8>#k?sG#lWH#EBxtis|7m=*Xa@_u
+i$@xe+PTum{2+*PNz*b;V&MFOi%j7eT|PVG?tMli`W+~@yKOL!-to2(ou<_E^5s=@lXwDY|l*}*NPE?j#g0J3ru+($4J_jmAk&T
-1vjdePSP@2HWtg+^68VV)ztzab11W%>i&SSCL~sqi$5(L55~cz2|m)Tl!D<Px#P$FCikUB^5lTDfG6sKt|#7jlhtVIQA!*V12&}
)O6+u_-O>|Vfm~($3?3%{4}K#`E&||4TXc?00000kX3Tp;NZYc00D^>fZziFx5nIhvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('pyiceberg-stale-deletion-vectors', __doc__, TABLE)
