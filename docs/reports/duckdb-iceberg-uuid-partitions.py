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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vt+FbxLo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%xxArN6LN~Wrup!S}d*Al=S;pn!JOSbXTf>)|3xHUj6uig1E{Q}O*CX%7umD)k{XM<K557)tn(mcbBwpCP&Tn$LXYW-`
fhN~PT(;t#`<#<vcZh(;MRe;Z)<wJM8o{KZzUO9KRB~Syu}^K?!fVRp*e}JX!k{bjs-QmeFQx)*e^}tTx}J$cN>e?3G2O%q1)bab
uJV3#D5;uQn}TM5WF29v$JtLb={wfrzY_w~s3!N6yW>g|+*G5=oaBj>rpO=ql&))Al+S}emdme5lUz!GKYWQ5@1MyCCvH?;1m67y
W8{+S{pYgu`)9IO;Rf~0|6roTL|RyN_JX3!uFc}657|9nB%i_cymMMheOOJrx9pTC*WB1@cdmkv#dW<2sHJY{tYtk$G}T29%L_s>
ZjdiHN7p{OlNf#)eNT0={}<Y`g|1&7ir(s9K4jTTNZ``iijpr@10(nZ5UhRr-7PVW_d4ZNF=7H={90RcDFZ?H#J-G<mq-A_fpH-N
?M$j2tEue_WMlb>0v^%wY&2UE==+z|U!KVSpiuyZS1w$JTL_VuYw3q?`dhbYt-{{fOrLt{c(@|RBm0>%Y|}>fk8>aXw>3}Ow1vk%
A-|W|Aw#sij&`iv4XJ%Ng=uJQrL7T1ZwF?-h6}UCNF~n2r0cE@ipu4`0%`2lcRSlIC=e_G=xhPPIEf)VFte<Gl1t;#TgQ|u{xGma
o;zWQAFqfo9gNrU%Z0VD^HwLW@AJ8oSfiI{y%6&g!h#b97i^PQ?}TVTAprGPYHF&*339-K`lgt>qKGrgzo(G4@-EBOmR{f~ia&J_
E52-*Mkx1gjjFHNW%pw5tb5|H%Wa`F=f9@k?F0+h1rG&v5oUfnm4lInH63wu1OXF?SdvXd06A?in-@cY8RhcK!#X^ugduqD9dm`8
H5(q=!>j2!{JCWy%)?)>aB*Q<e@O<FuLce`<Dk+!r~Mk+=f&XudDq6($3C~J&ARuf(pf#HBE$v;%x5&M*s~pFUL%_)0h_)ojekkt
zG?|gmjb1h3tG9MST`QaG^iH!h{P#s&?Tk_rG|@ds}vfAlxw>}lCKir7g2@YB^804JO}wE>c>j#p;dT2c7~#TX7-$2su$nnk7^H|
o!+AzD*KzD!+1d7%MWnJ<&leVS_Zl(vZZUrLI6zFXb{chQS%R(FXi=S_m>--++Q;E<Q3aPM|%Gt>})rmfpc7x`j79+09kGi2MB)a
FW^$%f!uY3Vk}A`F-2s+OZ1JT56|&Yzel>EkQVrI#fderz@V6-L%o(%m4g;s>nmpIf1KK~U!jYK#<^2%-_<(zkK3Q{<jYsW<dD>R
knAfO-F}?cyofvHZSFvh%efUY0F_>@>YDfvKrVXHyjy#G-Z21@xPmL}3fmAtXcGblb%(RhJk$w+z;W^CY`iIF5j<dx$!2D+-cwe*
XjE8V{sj<Q^~|YpJpG0AoMbKy_dQ=7sLE{s?0Gz-@>Z;-Ez%iad|&%(WRQy<FC;9qt#>827M{2xl$YbXm3l;8`UCGTj_8Kp4SEu(
O)^kTYmgMe1IL$^?9OKS<)SQ?qny$n1Qp$PF=)~RMx0Bgfgd{N=EjK{^-PG*yw=}J%FXR3$sm^TrCa_oy1^e-<s|o2w>miuw!Y19
aWqLc{`H_TRrs_6Ug>Kgmoq#zxedvWWr*dcX9QE%APC|B?dVKlfNj9}|J+#a9Xu1S5aKZ<c;#iDz;H!WCis72<#oz~7Q-<GzWd2$
<%zSL7Bmnwe}F7xF6n7<|0GF;MneMJ4oi+0D?M-%Kj&1jcUQq82UEpxgzluu*ztP(Ea!YdJD?Mhd%w@nLFm1JWUwLe4g@-Rwf`UL
h*8!0HvGVF;Q{_U*Cvn7<m@mpTxvv8t-%2sR6IjVlw>}Ns{}u57Eu2#ZwY727$>d(c*n7BkXeF<<O;*I-*1g=zkQd9OfV{6IB?RA
BU*{aYgS}Klz3%wfF2#lI!cgIwc7v~eG%7d!!gBIk0Rg#_dTZ|xEWd#qyCFf#=kS>3%bM(I?%4*zIM3Ts+BiqL3_K~0bR+lxRE~)
@;yw~)th7Vgj|Z;o&VjQI^Fpe+l=>*i-BjdhqLb&rp5RHq$8IhZ6Han@*c`>yzxGKm1zHI>t$`ktoyGAwW64JyxYZ{eVZ#0;*ixD
697%fOpozs7>Z(p(Bsh?i(IIX?noMI--T5F`Vr{qYsf(yom7#kW^yl}8!|SvxAm|u#VUp(ZXUZLu1%N7jStX}FqHb`ERV!bel?Nc
TcFwOz%E}15tl?8^JZaZa~OKHM13m1c?7V=Zmi_GIT(i>_*i_T6dV`BpJJeSjyL_?U`rN==03MYO_ozA-0Ofx3lnxVx4k4N&LF{+
B}*q|!c<9B1g{C7ojCO1I>=Fz`*wL^ZSMQq!UW;(vKj<%^jtoV#?y0f=(iv#_p+0|A74R5PbPa6?0#CtB%VWC%EU)=mU4@^Xm+rb
yKUyxK`^?Rg0)7l=X`|TuKbuTb877&sk#9`uzL>!f^h)(W~7UPrT_o{1~LAIUD3Ck00H(7fS>^Y5@YnQvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('duckdb-iceberg-uuid-partitions', __doc__, TABLE)
