#!/usr/bin/env python3
"""An equality delete under an unpartitioned spec hits all partitions

Scenario chdb-global-equality-deletes of harness. The rules:
- iceberg 4.2: What is unpartitioned. https://iceberg.apache.org/spec/#partitioning
- iceberg 4.6: Scope of equality deletes. https://iceberg.apache.org/spec/#scan-planning
- iceberg T5: Scope of equality deletes. See rules 4.2, 4.6 and 4.29

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v4.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64
{"id": 2}
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;Gh2q2VDR%o(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H$_Q_VW^#Z*(|$wDAwms8dINp#nO^q+I4=wJa?Aff2F=eo`pxCV0fdlkfj<A$V^qG9YsfemGaa_SXOblP%`nbb}UciJV^
5VYPn?db>WJ2t&*8@liO9Z<z(h-6c@?3xGdntL%YvID^@B22yhPSsZp$<zeUMO7hP2Wmm}xqHA;oNAQ=?BDudCpvd4XR1CJjA>9y
ZP2;r#dgp|thl(E!JrtQEINO)D3R8Szg^=+^yl$iT{%V19!oCeD&tU0#N`u|Q7O9PR%vJZWSrMIgEUPtkngek7+#3Izwq*M^K{4e
F3nPbRLUOXJ_R?g2lQhhI3GEHoUfJ$)LMdziWGK!_^!LQGLk-rNdSRQ*%PZ^L=P+G#SClDq$!wTQ4%OHT|g3|$t`9xH0XDJs$^mU
sY=_OhG(Y?>H0mtg={jRA*}sar5&#%b~pzo4P(Cs|7E=$4vIjsWmV_=Xx=mYFOFEiB6>K18o*bN+9z@@NoC_W#MeYK5<5E``Zi86
16$0gUY)62T5+!adB^AnquLJ3X%IanW$z%vmLdG4f|)aBi9y98ki?nf5-31xB7R@pwfcPO2aFvdG^W|`m5sH;{l3ED1SoDCSUMHt
F^+o4A(JNEb1)M(tYrU<W$&ZOh71zaM3!8vwZ>h^`orN6#T%klt58_si@rMQfgF7VY9L_13n%qUH+;_n=U{!$(SksB@g_yzJ6|kr
0iOm=U%jYZt<F;$DaoR@pd|wLJNfel?9tFPuqr3v2M!cw=mxnnmVv+hH;0L%&5W@stHo|;yVNKp$<{2*Bi~z!oeXkAdFNl@H~g7i
@lQ=m(2vaVQt9&hTu=30dh{bfk83hbz$G$N=oez|I$`CGR?l7p!@4{Xnjr?IVsvbb2KWn$c4%$xQ<9bGx7ju$`$7j|R~G3itObJ|
{o-NPc(xgf{5b$gzTHj|nOFnL7x!{(BIAGFkEP9!`eh$OxS8GbFyTB{_mRX=r_Qv?s}=jV_W(bk%G*wfZEv4p+8BMx*3yA@8v5B}
Qq)6gT)|uHz#sTmN4-Tl1yM-J)NeTL^|4AYaYz9;x}|U#G=D`imu2dAn7;RKyvf=aAZE)8Mxr|G1+f6=lIX;vM*Dw2|4vLAHT|s~
R^2*ww_P3wM86-weRzYJ+u=31F2rBq3l^xaxMefl1RE3559fSGE;NA=EfP*9U1pBaaK*GhM^3Vkq?iCOTFLjW$&NHTqbROkMvOei
sTj_qNnHAAAI(X-|K}Z1m9Ol+XXH1AiN>+{_{7yhSM5Aw+=4wvna>97!jkx*hn1$$9>@Jgv5@<$0~*W9+en#Opi8x;xhv;n3#oLn
g)Q1b>$GG&7aqu;-R$Y1M!cqDPb_pOyLS>k9)5e~Mk8%99_;@;#83Eyit0RSg@NS=tKS=C8Na_$ms#`F1MLX(0ELsQcNs=emrPcJ
@hVe8bI(Lbb6{>Iw{-If4W5dKct5U_Wn!(;h;_HlK9XRmBSxl*IjC>ImSsDAk&zuM6|bypja#=bwxF1FBt&+B2C>FsDRg#Y_DNr_
#gUM)gftVXE0(;tJ_cMA@DM`Z{_uCqJS`xeA<v8SP1ZvijJ#G7k2{0!w({H*yEd=IGk_mGg;({_p=srNj=iS$O4n0t3MO<j_f*K$
+$zywIrUBwr35Js2^9)DKyUA8KlY@lcNDu7B~KAPmt648BjBbJRG&^4ok?<aUmt8l3M$D}BYou^q7DfTg#8bo@~=>N-}ls}K%>3*
K-HFRy^x*Xz-~J}0X!Oaf-<gc?1E9U6Qj({JgH@hW(_lW#~ydWy?z7zHa&%&-b=0aBi{C!=xYu3@p<Vi#y-%|sVKm%juCfKL!*hd
y)yiKKZ@vaKSJYAQiiw`dSkT_{udU97!)}cv_u-v4CXjS+U+&aQ5lYg4;*0@P})z}p0NzhlZ6q*8HiY@yi!n-Wpoi&7o^dah~iEV
%>Tp1J<HDcufQzRRRePK7J9k*4hR12m4pSl6{+JsAwYI)$|DA4gAVs}N|hKB?Zjn7>}wNV(j6XsGQN%Ift|uBH)FyJym%uTLCzia
3k$b}Nc&kZp5bq2h;3c`-q9<VHd3?^Vr&^Xf`7DN(6XdG45dKBX)0b#qRw4$r935C+@Ym-6*{au5~P<HRoEudlDrRhM}5#=a)+l}
5(=2+x|yhfmrjX>!r;^*hdWL5%&`SzH2O#}QpK=x76`Umhka#1xspRKfnZ9jVuS4b&DaY;N4%^BE2WXu&DBtqzsL+f^d8UxO2z*Z
l&q+EEc6q6)LXr*B_|{s<*KCyzTqrzuxf<KX{(~@J09VRJZdn8=OpcfJWF%5&oYcY*_}Zb#^7vvt?ip5YEo+N2c?73e4J94rIH@%
sOGkcP<ei5T*d9_<8Y|W+l8gV)o%q;9kCUt5b+(qjj<D7aiO0cCd=(QgCKhKls6TMPJbLFTnt2}t`~mS7QF!O4hN#QU;FYMzfrq5
WuHMeLx;qhiIW>?w|~`cGjnghPFq5RAk`U3uUOmTrr~@-A{>rQwPQ1z*(JO7BbFLx&~67nVt`$8mvM_Km78a09;XX#6aJrZiZ{B<
L=qPSS^nl}XMC5X&!Q^ge@AG~`YADTJmqYT+mh|Wf|o7(hKh~~tQD81&`@K}CG@SnSAeZkV}O9DMkG?#kXQpIeUu+O_i6B|UOd*?
l_>los!TxnHy^3<zO;cAI1{`{(+bR0xI;AVaJF1%dobJ%2z;Bqga&^pJolQm2aoQ(JEBvXUH`AIO;ok#y;M}t;WUEDfR1K`Yz~rf
x_xbu+}oL^{RUilt7>6>O@P{J@snyl@Mavj3-1TfDez^wDrtMK6R?W>1_$9{6DVV12jxx|FrM}07El?a)(r4_FElHr<ptlOLFpdJ
Q%_LZlmz&t!<7UCIT$rPx}OMD{{R30hyQmI_YzAY00E;CfWQI(hA}+|vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('chdb-global-equality-deletes', __doc__, TABLE)
