#!/usr/bin/env python3
"""A filter keeps the rows of a date that became a timestamp

Scenario sail-promoted-dates of harness. The rules:
- iceberg 3.23: Bounds from before a type change. https://iceberg.apache.org/spec/#schema-evolution
- iceberg 5.12: Type changes. https://iceberg.apache.org/spec/#schema-evolution

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v3.metadata.json

== Read 1: all columns where d >= TIMESTAMP '2024-01-31 00:00:00'
Must give 1 row in any order; all in expected/1.jsonl: d timestamp[us]
{"d": 1706659200000000}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT * FROM iceberg_scan('$ROOT/table/metadata/v3.metadata.json') WHERE d >= CAST('2024-01-31 00:00:00' AS TIMESTAMP);
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v3.metadata.json').where("d >= CAST('2024-01-31 00:00:00' AS TIMESTAMP_NTZ)").show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v3.metadata.json');
SELECT * FROM iceberg.default.t WHERE d >= CAST('2024-01-31 00:00:00' AS TIMESTAMP);
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v3.metadata.json') WHERE d >= CAST('2024-01-31 00:00:00' AS Nullable(DateTime));
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v3.metadata.json')
print(table.scan(row_filter="d >= CAST('2024-01-31 00:00:00' AS TIMESTAMP)", ).to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v3.metadata.json').filter(pl.sql_expr("d >= CAST('2024-01-31 00:00:00' AS TIMESTAMP)")).collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v3.metadata.json').where(daft.sql_expr("d >= CAST('2024-01-31 00:00:00' AS TIMESTAMP)")).to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;7|Vts$Bpwo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%QSDxafx6ecz$nb)eQE7;ZAvptTWpOFkf8ZUg^i?$98z@Yc<Y!~sC$Ex*IOL)>qcJ$GA78f<12I`XUtUa=Yd{*fX(x_S
f1hk$0F0tyV<Ep^1hIV#af<!ls&47$ru-~+oT`AlQBH>a4o&H|&W;0J_}N+v{RI{afmCu9>{@kE$K=3wC!v7jHGLa;vG!6R37gsT
otu|x1?5eIhaImgqXN;>09N(n3|v%|m2Z)y<5$H~V4o7F%T@Ud?osuG=Z`DSX7(gWir<h0y+!4D^OgSgjyfSU=T<=UF$;#wKoh`^
N@}zbig|C}H~D^7pkFoQ{o0r6|NG)j>7Bv9P7*$;Dw%;JJlnJto{XVZZaQ^_M;h0*j`tgzf9vlgD$!U$Hv5H27vrmwc6g!S$&(aK
g5t`+pb4$bZR(j;HeD)Vj#u0B-zeL7ly^NHl|R-t&6E$gb*~wOmes8$Wls<eUGqv!gOF>H3}|Mre}~in<hWF~=X53@>fytiL5=gE
!zyG%rLYvJN9NCN3oC5m&yO9;Y1RA0c}JAK>yFZ>){IK6%=KYH@p_>_cC4iU{9GN8=Ro>Ylp6ztsTdAKB-7dQ3zvrao$1^pQvXHf
zmS3H*<YpJ{Xl+7rM}D2>~vv{2Bz9dUpbo2QDO(mC+`f3G7R`qORkYVbtLSK&^I$A;(*S**Efo|{+cOsC>k2~x9}Xe!=l>)*~j?q
lLg;Jr2up|8tiWCrU7FcDZ}&8#MyDOo?GxNI$9>2i_8&;v(9MN)r7xG@n<T|E_i+#zWS6vivJXemb6YUwOOGDhD|vryywiqQQn$W
=R(mEav~{soq!gC=9Wt;mPc?#+1Kb_l?AKu&8CkZ3Lap2^oWaQ50NHI;N$20!z9gvFAZ?BC!}mnE8F%k0d87~8Ru9xZQ!vA@`w;c
DoErLjjEFTx#e}avUc)0U&9D#_-<11or8*F#rKZ|p$$Cd{8k3FPw;aLGe4f1WLK_%zQ-ExN#t8c9YUUH=b1ugIpZXR?b$6nE~g7N
*y-aCNUV&KV`5cbW+gh<m6au<ze_RpV|&^4xSmo1ka;rseYh#ntTRW!m0R=p3C2)4v)>+uW$HA-T?O)WW#yLEcb>>suS(lgc@3W)
1{NElyd>KHLFAS~b>5sY-u^2?<yVF^cNhsSG?M#;`XqkldD^P;_%~^-xB@10kRl#Q9kDqFL6bRbNV<@o|1>*DT5Z_xqB5rUZYc@A
e5Jjw;@-j6u0|;NQ(mp37go<)NOQ&Rj5Pr|p6Rw3WP%=))5<oQBjAzVit?-g7RqCqjqXB{{j*5qz0OLnWV6hFL9^8cP=`oCqhAuJ
TfHV_ocYEem7y#vzN=;<U*Z(q753x7SMqop0s^C@@mqoT1ajQrOX@2B7&DB6CsTMcH^18NqDrLM(ZF+p9VUpc4~r5z3@ne1d@(Wx
vkR;{v8Btp5&yEn)qq{a7Q_z6K^k(gnDFEN8<i&R!f%D8s*itLCaKmZQ?i*UbUQQUQ%&+lI)8ojC|hX+q+Cbi9kh6-XMM<a>A@L(
aQ79-FBSYgsTN1c`rhp?fa@n=2$qrN^kh~#9Fi4U!pE(XaHsYzC3mIqgB_c20Z!DW5^>(E%twR|$>`tSx&tLLrGI7(r^lLM?uWWQ
yBc^!+*b6my#tGlKU^f6NP<8&DTNHN1u{$FoGGpwrFYy?>umMHVl^361j8&AtMYG;RcFK8p5TdP;-V1jikB1rQu)k0rT8Zwc#2pq
Vr5dN06OT=qA+?_q<Y|kR_(dKf?%{7-^pF;@o93BV2?8gO3o4N1Sn;zWUrm!jR5(wsAy|9kb3b+{a0Y}dmaY;Y>B(RouV6eTm;Bo
0)L<{Gy;Juq{V-p`DxKayilOm4ds13U-6;#>VNC<M<DfUwB{~o=B8xx^0i!ry-FgT^|lUx34hV?3jbB{D+~Z@i_?2bI?<^@Iq>vn
B9G8k?VkT1Ou2>UxS661bHWw*q@i12MYVtkG6-rr6l0C9XfOu56+A~+CQCQqm-sWy>FQ{@2sn=xr!$%zMv^{=KFlntBPY6fc`o_D
vH{M0;*BEww0kqf{w{(!bV90jsfJzM_mAIWd*Oa-FMK_CW4b;SiC=Hd^bL;%a+3c?x29mp_di`#s-PjSoAj2u#JK>0N8<C-BxUUG
yG&5?!kUcR*490KB>%>%I^C`938lwLSVtS~vv6mt_68AjhaBa+V3dspfZ-|ZFpI6_gF?Z{myba9$w+Ilq|+$jq;HIe!s&Ji7?I1=
lFJkk!*hERR4tY4EHGiu_b*XQ`sa_4Fx3{G)nrS2O|3^3d<u+erQh~;hGcaZuou@TMauyhH7pj^*=(nEKYy>oSlSy}X!|M5Eq`T?
XN><Qmus~5UF6f7<m{w;61GT|o=wRLxd%eFoRa8D^0G=HC2}iq5u_p;i1!)wlB_fcr=UOnyKgBWfh{_Q&BjrYwbJQ_fB*mhS#{t*
%vKo#00G7ifS>^YzhsW9vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('sail-promoted-dates', __doc__, TABLE)
