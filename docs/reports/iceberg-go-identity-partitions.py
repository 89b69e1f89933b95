#!/usr/bin/env python3
"""An identity partition column that a file lacks has the value of the partition tuple

Scenario iceberg-go-identity-partitions of harness. The rules:
- iceberg 5.2: Where a missing column comes from. https://iceberg.apache.org/spec/#column-projection
- iceberg 5.5: Only identity gives values. https://iceberg.apache.org/spec/#column-projection
- iceberg T17: Identity partition columns that files lack. See rules 5.2 and 5.5

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v2.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, region string
{"id": 1, "region": "eu"}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT * FROM iceberg_scan('$ROOT/table/metadata/v2.metadata.json');
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v2.metadata.json').show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v2.metadata.json');
SELECT * FROM iceberg.default.t;
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v2.metadata.json');
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v2.metadata.json')
print(table.scan().to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v2.metadata.json').collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v2.metadata.json').to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vttz7^zo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%I5!3d)4n9%KHqwGOa1!srT^xW0;T*rzrLdRgXteW$nPE`_V|}kLCMiC@GHkJ07Y#2ndv4=AkmV9HfTb^Qh}w)eKa^l6
<_%F#P;ln}?Kk~-o72&sAu_O7ApTh+?#;-1RjAFm)7mkXb$nX|z9&GQ3H0h{-d!lMEMCaATI5Rv_{wCY2K;z2;<qDC1770|2^S2L
xy;UOAbhRMX_;xn?5#f+rTKxH13fszjftJA;`3sYZNf47KBD9}L^pLh)zVl>6i;%+Im}z<@pd@SGr0W-W3!|2*ZwW+!q}0iW>h*V
K<lZ4rCb~?UGaXXT-@V%-v&<vj4jB!kn`Y+>qVZMy#ZKll`{AXB9SVdrf9YRcQo9^xXTH#l8WN>aswgoKt;bR{|utKybQp$Qo5?_
d~*@R#Mmg~Y}Xu~%MKgzm;<+Fv(NN6Bd(|-L?#J|;wc_wysZD}T<Qc?zvLvh(A-1D!Q5P$dz=<Q0cB>>;KryA`8IWkIFEXmFG+N2
%_E#VewVZr9_<+yc@HHk-ahGUygEx#Z?d0%mUPb!{eUhwRMG2uVN0GLcMbdb<n&XMtQ}8ch7G0oCH+#LQe_2ZN3(sP6j6(<vLS-l
5tYy5@xXN_(Gf6wfFx;4g6C9cQyx4VR!%|rzjpkPUKl8I?gnYlJvnVx9GN;QRpHEM25$~^6K||d0k?u1T$pOh5#3UIrV@|R!PqPB
<kvGFXD5wjB#LV!S6Co7v#Te64XLGNE)&1r!+P*zaWbomH~wb5CGs%QevR)Uyg2Uy2Wo@&co7z5y~(Zzl9Ykt8?U~>deQ??&_j%(
(5;X@_P2GCVU?q{8{mI0F)I(CsNQi(EUQap9A(zEtJQSH^-=z=?&<{oSbOKP+-#%=?$WMhC$ki3pfDQc?!ut=OmDj~SPi@=24diF
r=BFggTi!$tmE&~_(jYjHtAkQ{{6(6{1i*KMq?X}01;<y!Q_-2!1X?Fc~MBjS@N^oK)RlH+gMilqtezRm&a9Bgzpw#tV6cUISDX}
ZyBB;uXy1ERx8Kd;F$}9pMJ2b8s#n{bk@<Q6e%r|Hc4vb33N4RZTU`R4a8xf++0)($1&Ye+1(Ak@*L;)4>}grR~RtCr7lK+2??sA
eAibT6yYO+qVw;=MOs{35!T(O*2D+Qcv)(Gl*u4y=Z3AiUpCx_u+h@O6+DZR`(#hkB}Xca7}_7~s2t1N1LeZkQjM#ck7Sbz#E%Q*
M>Q$mkZ)I58^tDxo*VDss#1Qv-{UyfM2(U;+080w%FrAA2CnY7Irooz4Xh=AxpgW0YYU(*WONknB7$a;>o1ev!y?&(`<s8#=xe_;
os9_pr6T(9!V{Pk&4rIfc-P-!`f|Z!^W5T^FFy+Bk3K0OyVKP#B>YQ%c^<=JU-=39m-956dnO|MX(KL*&fxrK;gE&1rj~)RFhI35
^^vQG<J(;QDwWqwfX1JZ=$%1iBJ0V%?913WCJc=uLHVy)a1;3uAfOxUHir@}t7RnQ0Ke4GE`9~o7do5^XAT*+tNafDm+DA&Tru&J
Clj6`WYJYzI0A`l2_vj^td~Q%NxKJck3lU`5JUDD)!Y|^2vWGPcmlY4N!D#2avH|Df11ZOC<&&^`SCgXAmwc0Ug>n>kUSi*gzH@+
JL!WLCVpf&qf5#g#e61$an7`*#5G@!BxQ?RmK%pFjOH0k968LNkmlpOEa4f5ryf>h07IJJgH%`T?q*@|f4Ho%#JYRd9ceJRjzlM}
mc9?8L9>b&Plb`Dn|h`g`<5S~!N5N=>+d}deiDW07h-1fl|y3$t&BJ~rc43zK{mT|{bysp3)ZB8$Oa|8=q2+xA^W^YZviq(V(nX}
^iFF@FW;Repq`<^_9z@v87Yv`F(b?^EVnNBPTvjh$H0um<$56=F-Dq|zkIh(rIe&|Zh_O!0msxZ27ed6Ar^1)Q8x9m(lDPjWp#By
b8BD7(bE;SUM>4$;pWvLFA<%EPsl#W-r8g?A)|STpSccp3|Q23a95kzT1RF&j0zceD1Ca6c4&118F4t>rJ6&a5F_S7*?eJH49B2R
t3?psC(zZZw`5)g`~8I&2+k|il)wMo6RSAJZ5mBGqiH$bZh|*xsiDG(vDYaY-<q7{s{-2HZQn^$Y#Tc}EojQgAI>oma)-@ZLa-t+
%+jy^*sZ@Hi&rwcvqiYkueF4DXq(AINYmj=EF!D8RCt4D$yLy3Pt@o3tGswqfyhVwMbJiNVIPzEJmnwP&ocpnm~LLNr34u>`gnoY
OWB{-kgDMXyqi{jq4x-?7jEnIj!Ibdq~FvAj?(;<a2V(EkpUYt{e?+5yWM4Ff}n97a{$*Y$09%nc&_BDm4@C)7h-d7al!$AV4=Cj
rZw{-<JpsTqF37)5$N+|BR5scxq>Y0f0RkthzVTPw5qzte;<f=u$}ZulnSc1;32;TkzDXBR$ZA~aKnazYu^Kg!#2Xi{z~is00000
bf>BLOFYZL00GGlfS>^YYS!3VvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('iceberg-go-identity-partitions', __doc__, TABLE)
