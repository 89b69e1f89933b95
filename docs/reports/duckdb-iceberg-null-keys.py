#!/usr/bin/env python3
"""A key that is not null never deletes a row whose key is null

Scenario duckdb-iceberg-null-keys of harness. The rules:
- iceberg 4.26: Null in keys. https://iceberg.apache.org/spec/#equality-delete-files
- iceberg T4: Null keys. See rule 4.26

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v3.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int32
{"id": null}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;CKHBU0nb&o(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H$_e?JiEYs=B1Hni+83*1I{$Bk_pWFhB{3*33Cd3Aq9^LG3EC_7ewkB~_W20r`w_eyiiQ=U{k#+n^oRP|6va1WMdh3(xK
MQ|itKZb4xnH5CEFL#2tiXv+8G-;Tb)uHM3wcoSvUj}C^apD-&)6;^Drf2zVL>vCm4wh2q`kEFcYcx?#6KFt(L&Qq>G%PeQb?gg_
T(vg$GW>i&^7Nx8+e^H!%_sRi_dC@*C8Nzz3*i<@|A2|?kP>V4y`l?<RHuBNMn}Zre0%nS)hkw-!yMn<1Dko^glXzXdZ9LkU|c@U
I2x4)?@W5j$%)_t3$u6#aQ{_jABB7!Tt^fjO)c>hN4uo0OJK}3(OK5ix{W|xnbF&tPjK&s(FJF{tVyAFt3wB=tj_T?6$i9gM;wFn
>HjOd^Cs0w;Kg(qOE6@3i=&f_SHnDN$VVo-MYHU%(VWqV*_n_4xk!D*f%H94xW$Uh6Lu}bx58sa=P~N10~xXIF~3=l<%ENU%xmAl
OGeJ|@EM_z0B4O%`%W78B)w<u=m2ruqUGPV*YpH7kx&wljaa8)O}{4Whx2}!n#VfPq8wp|26jIA3ND`e4)@<LWlb-7w#Qxx@7oKF
3HVg368=-&z0?u14_p|wuG<8?!4hVd6Rs-SOjoA^ZxY)-po>tMA)*6k51P*{UMot*Iv5t;t6*sz>SK(jQH7`?lg8JIh^#kM{0clu
lM<V$F5w!Pn6e7BCetQs8~eW$d{?Hq{H?_mfz;<OahhhD5V1Clt{SF`7k@3@jR04|=II`%rl$=O7kM>j_4F_vXL2-HN2k#g?Od!M
&Tyj1D%b_%$80j#9g(Ct$p?1Wf?g>L6u+jH;Fn=3TwMSwx~P@&c>W)w0Y<B?9pqpxv%CxEb?iS_WjW<lOpyo{#*B)dAUq8)YdAkz
#h<IC%882iJgxmr6g)_bxYehw;+zxBBDW4U4{>glm_ErZ)HX+0XPEygLxm25o2_G0(JeqqQozxhGb~4NQcN=oOl6@pl7eIoH>|x~
I(?Da`8Fuzo&Q~05sZa&zyrR*qAy#R3xfQAX@`OuZfyuVxpTQ{(GPb28S+g$IMk<yJ5T2r-2E+PF#MLG`|;Gga|a`{^JRUUu9S5q
F=d4a5%UM=vJUQA;&<*Ne3Q6vb{52qz7D_Km*1vaOQG=|Q0l~!hs0nI10s?PZD#vn6N3rMXyavY$PF@Ys}OBkJN3lM6pQAS(aRz*
Ss-wA(Ybn0C8o54S0lc?)Z&7Qi+mv)GTL)xPW;ymutM$-clfgKT`5M;4mg?K?iV68Eaf8?nSK@fLh}cG)p0v}_P}DESmu)4k#r-q
!Ed~v?BHH^YGcc*F7IVCi<`ilcoP%yC<W@!07B+h;o<@+L^M9laz|Ei@GiEqx#Qand5&vG$;(89uwB>Z$RM)k<x^emYQCpKHDjOu
lO|9yYdiOeCN5~z=$8Luy!E{$I8Y4eg3y5aw5uCnl}R1^U2|R$;eAeJeeNH~psQ{konEm$y-F`#i<clX7=}c4D7DF=HEma&N2^~H
=6h9oJKFgZXx2&uYrP%<H-U!)qg*^V<jvU~89l;EDZ&-q5vGTxoTtBa2CvlLQdK~BR#OptA#4)=uao=Q3~r>W=~nBEpAyGmw-=Oz
CHc~QWa*8i>BCjIn(L22b}$aA4q0dm4ZS}tb-lW=JFk@W8mrTmtcRDj8rA?(lc+|}kCuyj4b2v*B<_@b;3;Uew=@x&-!DKq7o)mO
eBU<8yuij9ov4DC3Fu8t2xxLdDtwcQlhT@6kF5!x^ssPPc*5K+sdd#m@wg-!S&Z39!aAg>h5eF#FF!zriudR=uER0(1rOo3jC8(7
#CqiBJgTW+9o4>VBlN=Ra?wjpl@3=>@#60CIa^MuF<Y9*SzPVES7wPh;(eQ!$DA<imHm~WWKJ46Sk5t^{xMBFun8I65$t?(HUtaE
<R~9P^=ss$wAo`Zz|unsWz6L!QO?C>=aReEjHceBq0iRR9lUHINSCp(3tvfo4-?S60_bagwbY8#_nR`!crEN{0vY~7a;ZV|fit5F
*Px%vuFGkP-Q$xJR-8nZ;IPWEM$Na*j?G?Nq>k?K*SY3qLsoJsMh*87A+^=4Nqf{i=Kt0@kO;VdrDwAoHjK%LKmc-N?;F-~lN)gp
{`yKy)UCV`J_6<0SZ+40P}rc!)$R_(QdGXXt!s@NNbl#%`x(xrP13Gc%AlQPfRckC9gPY>{`c}=?U+~7<S=+Mm9NUQ86%;XuO=wB
`L(6-CD%I)C#mbV`P7DQHs?LFS2@C16d6QL1D@xaLX!ivOir-CWa09_ho>i(gh#(i(`+py66|fvoQcxY>wis7+fU!$GH~;9E3|Y^
W&)Fj#As=QND>eJKBzgRcOqCQ?v2-VH{VjfO;>8zRv?n7RgDY!H}5ey68E$$p?ly(fq}&Sr1o|6*GGIA=GQl_91!i+S)VB}?y&?6
7Yc-)%81<U2-zSyg2MWBF-3X2;se?TPs}S34em7JJVRt(AKSeHV&N$xLXHtPm?5@dlBt3@jUCbP&!o88%RSA^k}8@=2nQnkDkZ#%
O(`8cY4r-AzE}amHzKVu*N36xb7p)|r(Y5Lvuh^sIGd!xdpvB$bNh?NFLtU2P|al1#Z7CtjjyMCT$kF}-y2$~DdYSdd*KOpp>5^A
@ZG-?y6b2~;Av-o00000$7lN~sRq^+00H?BfbanTB>%3^vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('duckdb-iceberg-null-keys', __doc__, TABLE)
