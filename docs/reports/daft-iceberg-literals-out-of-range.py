#!/usr/bin/env python3
"""A number that the column's type cannot hold is above all of its values

Scenario daft-iceberg-literals-out-of-range of harness. The rules:
- iceberg 3.2: Literals. Iceberg expressions specification, Literals

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v2.metadata.json

== Read 1: all columns where id < 3000000000
Must give 1 row in any order; all in expected/1.jsonl: id int32
{"id": 1}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT * FROM iceberg_scan('$ROOT/table/metadata/v2.metadata.json') WHERE id < 3000000000;
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v2.metadata.json').where('id < 3000000000').show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v2.metadata.json');
SELECT * FROM iceberg.default.t WHERE id < 3000000000;
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v2.metadata.json') WHERE id < 3000000000;
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v2.metadata.json')
print(table.scan(row_filter='id < 3000000000', ).to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v2.metadata.json').filter(pl.sql_expr('id < 3000000000')).collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v2.metadata.json').where(daft.sql_expr('id < 3000000000')).to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vth+P0Oo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H$_Q_VW^#Z*(|$wDAwms8dINp#nO^q+I4=wJa?10{z~?9$B3_^)un0aBBQurWHDi$Z};oR1cRmJ9~Z(M-JDnY9Xj%KsG`
AXK2xP44Ahn;7&Yw!AO-PSbHvI0D;{>3Modd!Pz?ord3wW6(kc0v5m)tlA^6u1S4{br6?=-R`<Fxhr7Ve5DKVuq<efxJ6S*wA4^U
qpTIB&6HTThWVb+{#x&+Tr{A)K*q4hB<ql-a{hjSuzVI<*2ivNI9y_<&W~M4NDhi48tJb_X24bRW4Pamf+tEgm-0!<#cJ-9*|hMZ
aK?p0@2R^{zcM<wy(sEUt`=QzE!97jc#}fq`reSM?&58WS_}YU->FApnLTDlK*!92VgU=%^E;HQ%gqs@b1-XDe7`R|@3eH;6a3Au
6e~8h{*UtU#exWd3{Bf9IK?N_ou84}P$bUk3a-9o`0oUJ$j?1p{MELA@^QlC%_^96*0AAjxk}U^`JfZXN?B(C1{$2gc7OcBvsaK7
_7DgN32`Lmz2E9va=}hx9n3~uZ6pP-nM9jwlwa6!MBahSMTEOCu#0-lgIXNmOVX-1_gB9?cRh$_=KA3wVHd=ltF3pfcFq?bs()CJ
dKG@D(?}n~dpH@UmnS8e_Ct=@YJcxUkILu#=;ciV%GPA%3I!y|M4()hH&`T~){+ShGu~166UV&4f%}Op=ONEb#Z>xoNb8_M?2#&f
M&dT1n|kCduGzK{b2B>eutsLTx<627ew}E%rMheQjp8QKG-C}uiTQBZ4`?u%6QXvijnN^aK$oKWhdU_vLA%X#u~o@g;;t1kcKS@I
mT`YwDo(42g_r<4JLL1mO72Fai2~*+haH!@2aW2dipaaqee9F%bkzqTR@AKTkSNmxQ70$<%8&oVpPt~Mj&{6Ox5aj_w!#5!u6XoN
V!F@Ec|(i}kY4<IKcUpM`CpX`{@|=8+H(It8H%9vYwM2tBXP2%Lvziv+p(|C=otD|yTQE2R?kYi{YtQFj@`cNr++|CJM6L@UxI8d
2xIPrV^dDr@E|S}R&d7tJ%dx2jwVdkI1z|Wv0hDpRG*r&Vir+gu%YS_(ehkSknO4~?c)JNswJr-_E0XKm4L6Z2auDkf|d$?#O+e)
)DfIWBbEtw)GIaG4I)a!DK1yv?UN4k+DQ8Ywjl#AE)b3v6gpmwQHhtqBt)@{hTj)JC8MS5?VCnuI~sI^92w7<Eq&2;#E|Y_;ltC)
l>hw?9g_HM0|J}3^KRIk0Pj5ylbzyufr_t_6GeGs{8a~R2#K9-%k*qX6RSHP@mh6H?T14WD|DVIh*I5o<kJ-25B9P6;C4Owjn*=H
g|{7REdV7YEelDH*qcnJ%|#>HFAQqW9sC(RZ?fLnRq%ab+$-`wmc@-eA%g)bty!Q>X?mcsFz(}GN>ET_Ewy3M%9bay#iApxn`i8<
xr{BTsu6<-E321{;0c~h*hW*3VjQb8@a7{;nVHQbEp)g}Z;s)})P}TV+af6rtys+Yq8|@AG@oJpm?|)EPfaLS@8~|F1BBRzNAn>#
q6tsh$F32=<u|7cpg^R-gJwD7xD)Y#78LZ9`^Pf)M9#HYA*X%uZ5d}sts&d(GvtPUp#9mmwq*L^S;HpEo)S2HB{Nu*K?hu{9F!ZE
#)&(K?s3ORzyRK&`^v$SK>eA@WtAjnh8(i}=Gltxsw-%>*UyBnu+VKF`aCQs)Ui2}%w2-h2g4Jnp{$8Ia!o-++NW=HB21Jr!~pVq
krIzA%XwdtT?tIq=WA&I>_G+1h>SJV7^7d=3j~;yuLB?D5i1$C98l_vhv>MK+id5I`?$gq4i-SoSC@yv(m!Bf18qI3HtfRJfZWHg
d7JyI$%9=jsDqEf1F>Y}lhjkIJ&pQB7h&87aPDE}VQvIE+eiV0&6@)MKKT*2B^rm|8l(W~c#IM`Qkm@``)dngUSOB|<80b%gi)M9
Ed5ths@u6wbLc4+P+e8zeo-#vHNc06t)iUVpM)hKC`<b#(Rxc}Lg3U}N0)D0OImaUnrLi>WfcW!Pqtnkn!A<xSI~V*<c$lyh!4b|
HO+7DOvm*XlU6-o&W{JwQAtwWcz&Erv)p1TROZ*Nwj3V)NW7y5d-KsmWzQBnRtCk&nj67mCO=&lq1@2SHzT|sMTnD_+P2|<Szv*|
tw#p>latepXIjyc4GFP7d7Zf`ZEyx(bwQnQ)nYmFi-`$c(aR%}N+{|wSS))b!D^t=>1hKRZ;K3<|3*L{gvR@-Ks5F6s#lGtrH`q6
yZV=Wr~?p8A#wAd+kWHu0jTXlD^jX!c0x~*eE1d`2mD{|#~@O)YG{ip;Cej2R<nD_X!vQ6ax$`!p|mfHq8b1EoZylIo<XzT8NZY*
kk&uscFnVn6<OqxEWLgJh4wD^a&ZLSeD4@txr)3xdqCj5BV)Ay$5-rD^fJM(00E>AfS>^Y?#i<6vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('daft-iceberg-literals-out-of-range', __doc__, TABLE)
