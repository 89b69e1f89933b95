#!/usr/bin/env python3
"""A range on a column that became a long finds rows of files from when it was an int

Scenario iceberg-rust-promoted-bounds of harness. The rules:
- iceberg 3.23: Bounds from before a type change. https://iceberg.apache.org/spec/#schema-evolution

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v4.metadata.json

== Read 1: all columns where id > 0
Must give 2 rows in any order; all in expected/1.jsonl: id int64
{"id": 1}
{"id": 2}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT * FROM iceberg_scan('$ROOT/table/metadata/v4.metadata.json') WHERE id > 0;
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v4.metadata.json').where('id > 0').show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v4.metadata.json');
SELECT * FROM iceberg.default.t WHERE id > 0;
-- ClickHouse
-- clickhouse local, started in /
SELECT * FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v4.metadata.json') WHERE id > 0;
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v4.metadata.json')
print(table.scan(row_filter='id > 0', ).to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v4.metadata.json').filter(pl.sql_expr('id > 0')).collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v4.metadata.json').where(daft.sql_expr('id > 0')).to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;Gh2pmt6odo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%6XxXQbgQaC)9k*35W4`8Ym%O?Oz`2+tkgyHVE1Nu0NYz>{N6cX{tj1KxfbVbAim63(7QCX5-Fc54mm0+dfbnNVze_(h
8Ll!yGB$D0M-U?Lll<vql{(RTI)x<!H8YP(hUoz2`ze8gC!QhKsOP-%Yrt@oWJvY7NZ0OIA)iY=4n?w;3gS$jRj2xGH8h7yV4*Er
Q!yfO7dfXXD}C0gA|O*7zgiMTrwZXHCA0S%qBAqKeY=GCsSziVpDY#t(%8LKF|M+Avg8})I#T&&#&+ubCch#}pyYpn&KX#6dhRrM
+AwsySBYx`*1vW)c3u^?WJ9q~Acq;jCJ@o>%2*Uy!!G!=r^cftz;E^J0%|7djTX_+jOrUkwr$V7ckJiFVX%9Zv_?LV+kX&k5!RZi
?-d4=;smH@Gk-gp7++1tt3-pKQ&^>PhC!7rO72mN3XpR#=5OoLlJQz=>tSiKVTrFq+bAAi{j**Jj6iP9UVK-&=`B}PB@{n^nc!5@
su8`GS8ObLlM;1<B4nOH+h>XDjyBTa63-maTC~u(c9+jG8*qrn=9j61LvO7HrXjh|-@%OMpc$mZn|AxusS#lr<bzEBg>j)NSRE+X
KZ;vhL#8wC>#c0`=v{)}X<qB2NhC?IJXRAWMRWfkq8(>D*K1)`2XKm<G$$3rzWS56IYQXq5TPdAHFSBxDDm+R2Ny)ihHe<Ztv_57
PNp<8Jxjj)ONZ?S^YnHY6yE1sqE@Iq?=9-dtB?&?##3N1!(l#NvUniDD>ji&xYg7pLI6?zm1Fcf2n1WTzj(y2j@M_0O8;_=2{+S{
Vk3!L`%=2@`G_IBe*K5T30!lLjn1m8+6ne2-WTh6<%q3WjG)2MZq!H9u!sa%qM0fMtUfZ2VQ#(78NLFsf|gYLI)CCpLiNj}N9UMH
5uZy4nC>37vevfb8|Txhzg1@ri40ayZFPm9o0h78j=Ls6nn(?BFe*5f$!&`|3!0e7PSD4u6T^{#DCEY31wZ6g7rWdhQwVp$Ttl4X
ACI#K;8^D*dhOC`XRE~J`WpS>FcIt<n+Ij>J0!=#y_VG9n^OSph(^TX590hJZ!DWW@mk6Sl3t79VRCw~CRr;xTtu?2y0HKOsKx*Z
_<X$D5?~)M<dp#{D(qu<JWVXX3w{NrahargQk<iLyW~|a>1sDiXzP@SBFXze(43;w+iK0m><wVlss`;YC8;DXqM^yjt?04e+PhPX
f*H<2_AuRcke{kvh(K-kzf(@GehzYl$d%MqzvA&W=$JFprNFuHydURX$z)YtqQd&kkhmur1djHes6F-WLv-jaHVO+;t0b<5FZe?9
<}c!~D7}jKn1i?W%Vk5tDzEHEaPUUf{Q2vBebZf#?Ktu_xjs)Zk}iZ!Crl}7r=C~0gsiU@0ujAk#L+p}I9$j&i|Z!<PaCvNV3<2V
F=)7i;}sONT?2O@x^Bt<u@Sx<Viyi7YBw`^g!p-xmFKjN=|WSSG4@eGZ+RNZG0jg?K`V|W7GF2Z>{u=hWz<T|j;tb+jQ&f};SC0u
hTyAhgK$h0ge-vGUTlTRsPNpNG!%2R4dH-!J(hyfAD>Vgo9e~le2us@s!;8~jR}X}?vU)Db&Ni~O}G+L<Py5oD<L;81jJB^9F#0%
5##5WeyI|@Y;)S9-Xwy$d+M2nR@~J?(^2IRm?yOY6Agp%g<5My({d+xv^W#Mn_&g~B&8ZrHRYv^39DqDz0>(ssNS)L?r~<6u1f*(
o8tiXH63w){sC=Wa(Wsw&nG|7>umoGvU9Rg#^emc3pTcvB7G`17ae?>LIoq(bScFQR$V%r1K9wAty*hxRqAz8fJ{Xlm~ahhf&vff
v3NX)V1PE@(R>$+t+fV%c8l-p2iBE$Scb*>Wc$UQ=$GErVl)G%JtK1(x!66EtPo)|UfLzcHh)M!VA_L;bJ!HR5>_b@f|hgY6J>o%
a3YN=algd0dfNd}kBTGdj97l0TX7=xyc9R2`4|MOw1^Ie$~yPt#8zc?^@G^WhK!;M{-tsZJOMuEK82$eANH)1H9D!Il=+3a-D&8@
8itQ+NIxQ!3{q*kRU2}_<Bv@2Aoz*aPXV*HMoRJcApTk3%v42I0e#sA{04A%Wm*ue<%fq<xwgb|QASb8({Jf}7$j0m-ek4I!mjyA
cIG}O;^j#0B3=l$xeMubf{+laF4W&zNP+fZ!VbQ(0p>5xcl+}AQXmw`Q?J2y{|Mrpi=ka6YP3?KGpL6=$>;4u+D3Q|CTmv<UTAx`
%@cO|ok=YI+Ie_;0Nw^OG8q-RjgBWtost5D2q3GdD|*ELl}OPN#x1k^qa8mIV{NX`;t^=d^QOq+gxW(r^)IR8BC|Ufy+FQkCLV;(
;`Nn0w3CPG)@yl(&pIA)GVTG(om0Bc?xc}rIn6U5RDxt_(Ct<Vi69UcFfZH;hrQs*M+ohs<ZcL2VPpO^Gso08gocW0bTwU2$^9w*
^;j~!s?foTp+R<tI;juM4R_*cF%X#frG@Sy93)(QRcrz+80N^4KJ7!~xt=`n8s-rvky7Zcf64Am=coe$M#`d6xk{ru5<M)W-oV*8
Zn=%sVmRf?j#e$HDDxa5v$i}@VUS;l#wxOTn+}&+*^7l%+_CZ3%2A48>T4OAMSD_VmkT-yzxw-5R^eg-Qy6_c8k_4e^4>z4->B#P
dog@j42*`19UZLdwCs%#O^2xjX^Tz(Wqv7L_Qf6KDE?i)35s@0M)cg2Ot)e5S}rvIg21$`I0I24j~)xB&<rc7w;%ujwshzvU6#0o
00FZRfWQI(%}Gm4vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('iceberg-rust-promoted-bounds', __doc__, TABLE)
