#!/usr/bin/env python3
"""A partition column of UUIDs that the file lacks has the value of the partition

Scenario duckdb-iceberg-uuid-partitions of harness. The rules:
- iceberg 5.2: Where a missing column comes from. https://iceberg.apache.org/spec/#column-projection
- iceberg 5.5: Only identity gives values. https://iceberg.apache.org/spec/#column-projection

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v2.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, u extension<arrow.uuid>
{"id": 1, "u": "00112233-4455-6677-8899-aabbccddeeff"}
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
print(pl.scan_iceberg('$ROOT/table/metadata/v2.metadata.json', reader_override="native").collect())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vt-CY1Oo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%xxArN6LN~Wrup!S}d*Al=S;pn!JOSbXTf>)|3xHUj6uig1E{Q}O*CX%7umD)k{XM<K557)tn(mcbBwpCP&Tn$LXYW-`
fhN~PT(;t#`<#<vcZh(;MRe;Z)<wJM8o{KZzUO9KRB~Syu}^K?!fVRp*e}JX!k{bjs-QmeFQx)*e^}tTx}J$cN>e?3G2O%q1)bab
uJV3#D5;uQn}TM5WF29v$JtLb={wfrzY_w~s3!N6yW>g|+*G5=oaBj>rpO=ql&))Al+S}emdme5lUz!GKYWQ5@1MyCCvH?;1m67y
W8{+S{pYgu`)9IO;Rf~0|6roTL|RyN_JX3!uFc}657|9nB%i_cymMMheOOJrx9pTC*WB1@cdmkv#dW<2sHJY{tYtk$G}T29%L_s>
ZjdiHN7p{OlNf#)eNT0={}<Y`g|1&7ir(s9K4jTTNZ``iijpr@10(nZ5UhRr-7PVW_d4ZNF=7H={92Ln%{bzm9dRb(Q$fiLXa5ny
ywe6>$vp`K+tyqa!@7^Z*}gTsfY_y&M|lDoS|DlGi0lEKz^S3*0g5rY9N2yQe24V~$bawdE|w>4ZPEOb3CvDbDskre_7H-@aaVLB
h;@$UVqHH~zT3?GG}zWZ=rYCrgma6kQ8p>{S4|Ev5crUn0F65-C#2}S29Ow(JmQB$SU4lFA2huK**(Wd^I?P)f<WLpV(M8vs7IeY
)+?5PLT7zkTe6%y76mRMVKwZ2Fy}miJYuzUesGxjBNA}g<sLjBkWn7C*5!={o#1iReb$pU_=jyVZF1mA`DJWeb1_P3>6zr!Y8%||
<h^`HYJ{6<=eAb$j;(Uo84v}9Ylv2Y{(%!f+u|HYyHI^+|45s11<!nx0>MuZbdnYsiB1+3{CckV^wOe}y$b?k+0?wmW31D0DD@&i
r6WZ=%C#hV7Bg->;a!~j@LkL0jPxI2T{Z1|@!wi#GZC{}+oH+`Q<D8iU>V}+_Wn{Pm)ao6$VsR(Y;$isYAjbZuNv}^Kx$p=$$)K+
><crBX6;bA2l=POz52xNZM03GPzISG`4`e=;m^~o7=s(j`J8798tRig1=#zco!z>h{mUa}n<4Id1{Qq?KKmAqPkApWZ755QdW-pU
GasR2Tsqyms??%L^99N_EvB$fi@X?|ZehDs$NkUow2ODjh$7>D$-V1hE=n=nLNjpgh&<*(-3V}4M^#-x!Iek=9Ml0)g6gESrI|E|
L(bibauDj^X9cgppJY3^BpHMzr_N4Wn~Tqf+}i+E=u0@fgU>xQUuu}vy@NQzkJ@lx`kw9|Ldmq>IqHx!dLvwULn|o>;Cy-aiXkW<
gtv)(A*TCQ_Xqj1JEJ`!J^Yt~4*7>IgfwnGR5i9+8fkGKV5q%$4Hk91Hwm9u_}$Vgw9u2gUaYud=seN9c?C$XyU%*z^*4evEDd6m
Un|dM7>++!mh=-`VeaOZ<Wt!cmqZE9jLD&i$d7}^a%@ABTPXBlptBhAk_og)2x$n(z7ru~yg3Cmpe*-rZyweNI}vc&iYjy;2$KMe
0`USOvfc%t(U4A<=*PJ}^ecDZPfz(S1dq1HO=+~+khZ~o2B!_XZNO-Dh+`aQ&x{H2P^(mtN(BJtQHNInIF^Kkx%I5gCoJVX6#590
(~^CX7y4DYBzC*^9875#3?n<ldsgn6(IO*%oLj_F`Y$cda&H)ITeR#Wwcuq;(o#Gc7-y|W0a<1yV9mB+Y@`Yal!GE?rb0~`Y)3^=
V57Ymg#Iu|*j)4^17pQ#Bv4XqRFuR=)V`ROhTBCXchRG5*s#@TNIc$2wDquEr^x4qwH^)~+E@%NAtTZ&DfKxbduF}pkRWFSaqABY
y2K${)Y}*UR+}1^OcxBUF!S86<zp)Ts+*^0_$?I+0JR>!Z*%zmsB_oKL3l|C1l#QI^y_w0pkYwF+EneIkRLvmxyq{b$&SCNnYzO%
lpi7ewk!Z#GWcxu8DdQxV-K~-AfczYR1lBd?_NtklTIcWW2GrI@3*hDkrY!MMz=!4&@8lti@qY<3)qUHInZ>t2zqLWArWLSp-G+b
%+-^kB%W86AV>@VM#X3?VqORO!t2w02SNmR+v*C^VE?fIeaz@L6?#Wt#J(RE`2(7_uZxGsl9n&0b2M)}{5IoJAZ6=NWvBeUVj1n*
I6T>_u83ae4zv`;5f$Mbd3F2t75mbwW-eDMrQ$v0G@tDJW^HnT0MWtMT7%>-=ThlxycqQZg>MBgGG4a10}I#b8*X~{KtsvG>UrV4
aYJYcs*hrlS?$QqwW?;+=}{r_#JfK<xqW_hC!jE3%*%@;n1bG-js!w3g3g_L5&r9*>}2A<l$(H9h_WFJ-}}6li=+V0xu_KuT#Bh;
p(H>UBJQ){yCTBL?@#stPWdoWzgp#&pJUh*qYPK(1e*A%tr?`o7*mcdbf|u5JK~ReS_69}CryS4Q^=?KiEBtH@{M>ZmeXL6mpGXG
$QmkvU?>McPaubP`Z5R)^S|q#Se^Q@SltVLX(L8}g%a93yZ4w*P~6Rc00000I^@U=&mlY000H?AfS>^Y$I+r*vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('duckdb-iceberg-uuid-partitions', __doc__, TABLE)
