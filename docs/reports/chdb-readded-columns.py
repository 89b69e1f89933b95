#!/usr/bin/env python3
"""A filter finds a row of a column that took the name of a dropped one

Scenario chdb-readded-columns of harness. The rules:
- iceberg 5.2: Where a missing column comes from. https://iceberg.apache.org/spec/#column-projection
- iceberg 5.11: A name that comes back. https://iceberg.apache.org/spec/#schema-evolution

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v4.metadata.json

== Read 1: all columns where note IS NULL
Must give 1 row in any order; all in expected/1.jsonl: id int64, note string
{"id": 1, "note": null}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT * FROM iceberg_scan('$ROOT/table/metadata/v4.metadata.json') WHERE note IS NULL;
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v4.metadata.json').where('note IS NULL').show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v4.metadata.json');
SELECT * FROM iceberg.default.t WHERE note IS NULL;
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v4.metadata.json') WHERE note IS NULL;
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v4.metadata.json')
print(table.scan(row_filter='note IS NULL', ).to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v4.metadata.json').filter(pl.sql_expr('note IS NULL')).collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v4.metadata.json').where(daft.sql_expr('note IS NULL')).to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;CKHB3S9s)o(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%QSDxafx6ecz$nb)eQE7;ZAvptTWpOJK8FB~_2k}cE@*^Mii^0MV<V}F%r=;^J2@lfUc*`4rc(1}xo0SCqF{-h|lL+;~
FvVcLrY@f#c17jWj6Q%px~)^rY84CSX&sUCa>(x$c6kH%6%6$1y)rJ)bhr9SS;e`?P2$n`va{t0FmTbl@~y+79YJ+P5&9hXkcb`j
hRk&T-BQ<NehyaEfk{jSGaX3r0dlk5br7AY4`V5}BAqK-bIzF)Dn+Ye(z+T0CD#j7o-_&!D2%13h8*Xe-D&P9SedT*CCE_NV@^^$
#Y2$X9!S3JuYEmjTATS4?C|aUbTVIP3|OMD_2I>+5k&E!g4tJ_ICi}W5e5hqc*P+#c5N^9?&_D|GREhaY5@`<(I79n3==|OhYl`o
#;gyJGReSe+Mq{)Z1>Y2Jraa2RSV`t>^Q4NzS1{l*z4_~oPi~!^2lIFnF&}+0MN27c_c=KaO^`u4;C<(Yd{UhKf(zpm%NSbIk1&S
+nem+1)yvGrnB(9!N1A6tGQXK_*T*+Xp(QE{tahqL&Mbs8pxJ>FI14cK?eTU!k1bjL(KJ&6u<h@MH4g~IF&{0=SA!Qwg>YJ(k^NA
U0+W~DLRqy`@f{*G$E?!AZHz;F#@u_N6Vdek^tlEOjl6xymhW^Cq)ST#6rX(#|?Id%!~DD{pyPJMl~%A<s?TH7iR<LYUA-FJ>Eus
iC(&I3HpC3yeCZJ4`G^M0sMVpU3Dlym}{mJ9>Qr3_dN+!bJoc~oFCOJJ(o*<Ho<54E!M|;L=#ANPe*uCb_V5#vN^g1e?c?n$O43b
Q`nGn1jbGBZcv=>YaQh|$a4e-$N+Wzuof<3ZlyZpeV5+k@Kl(gk>@&y4`1%I=5#S%YPw}Dl_{DV7gIG%rB#j`NA$`7;BJpToirkZ
a*I-SCB>m^ZD|AX6op%$%&E0Xbcy3}EG#~Iq=q`ij<sT!t8xfRs6|{SI5ZPV6GBT0Pe`v!S5ffTz$h7H)IHu+Fzguqr;F>_=&uLg
p#`A@Xd2RRaPA`tx+}MnHJ`3jgJyLBGft29l^t`(u0uY9*4P*k@gs>M5PyDv12)XuSW{&H>$Ci0aUGvu=u8$fCu^U2CXRO;in(_g
>w?uh0jJ{{BLTS-_m@c+j@tLKEl~wn8O&eE(z%zYJ=wA?)qn!}*2}b?UGpnA3cR)oB}m#0G~Pq#cSp*i>z-QAKw-NY(VIlc1l2yk
D9;2cn|!E)B1$G~d~NDz3zQ(?AoB)wraLuNa-;nDDylK-x}SJM$pG$*j+=U$$Z9at?})nd&W}-kPM<mLcc@o;y2P0PwW@O$L)9GM
8#ek0>m{$A@`XjOVWkqw>j}gPOm%r>`*x@)d4Jp(FFGsU5zjS6vjY%BgwK(k+=a7M3aN*Y2JYq%E?Ra?sI}KXx_2j-Z3+1R2H{Q}
Aws5g&7L5XQ9?Lzf)2SF4<Hw0<xQ1R@anB8Lq<7a)6K8OBbM74WWsg9W~v{8gW?P(*vRc;5)mWZBDnTnxnaXmd&lhY8C~!7;UsiQ
(5{w~QsyBkZf4Is!ILRFu4`d2wXDj4@NZ!?3K%1B@m}iuolx*LEF6Tup2@Nw(*!<UP|0^LU<*k^f+kcrH4cm`dDvxw%2#^3xq?+=
7ezs>O{xj!qFbKdvjV*%7iTy9owguqsJeh^SXn)pPAT5SJ(q9ni07B(GK@vYn|YZ}gbjYT^BwF)<>hHKtE}K&?H%{Vc_+F`Yvl@Z
U)S}?nbQpz-?sv)+2_3it*)+$?9uMhypFMZ1-eV>{>F)&Ekglt`?HA+Do3@;GSbqF2O7VKdNy>FPw;MJHgoc`Q}$!62=*ZT?4LTM
7t5X|4uR;9VHj?%`G17|)M~VHYZe%(QG%1o?cIn%l$AP69NxepijCFF$oZS~h`mlZyKWpEMKY29*~*tVuu7&TDY(deO0l6fuBQ<P
{#VOq$rlt6ZW!vEuP3RLMsiX{Qh;f5zF_vtYv`|-{I$!1)PmkP|Ai;OBg8z&rVP9j3iB2m^{6YzG^kZ2e<5=e^#msdN?ncrJmBZa
o}&c_kcJK{NT0W_WGlsfpMQc{`nFLaYZoG{6TXRoNsWk-A%wB5+eNOQL6Io?>+s<WbWH`#F>1N?P^>xEK@9XQ@I4(wQ{nU%<5s#y
HqvoF0l#$NG(#JZVcH>$1t|q$(CUBpTU4rw)pa2+dhWxaNS?zGOUL-tfUl>F`Te&5)_PpI6Bs*P`1!#GV2m%KV);CIDS%NsJ9n^?
2k_+NZ<V`zRk-|wsn3xWQM{4uJw>SIUGZzU@e%~&3<!KveD^js#*fF`;NTSKHUj-}jWzl?@m)Gh*6*UtZjYZrX;3*5`^<Y7jKC14
xJZm7+^?l#z;?Tw?dl}AgUI@{e*uNm4^~R6>z{bf&FS_RLK!xhRVFf1TiPAT?Ouaw@=L6oey;#qrN%s1pQV}~dRE|HvGF%4LJuka
8QthU7cLK<eZ3{Gdq?d&;&Yu4f0(eH_hG*BXWc9!+JI*6qub=D7*nk$FBuwPfg6Q`ESUPPCIRrKvdW)L%Jvs?D+6STKZXh=7hR(w
ldnwCIcIV{(*OVfD^e%N`e&ev00E{DfbanT21Rx)vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('chdb-readded-columns', __doc__, TABLE)
