#!/usr/bin/env python3
"""An equality delete by a field of a struct holds where the field is not selected

Scenario spark-iceberg-nested-keys of harness. The rules:
- iceberg 4.23: Keys of an equality delete. https://iceberg.apache.org/spec/#equality-delete-files
- iceberg 4.26: Null in keys. https://iceberg.apache.org/spec/#equality-delete-files

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v3.metadata.json

== Read 1: columns id
Must give 1 row in any order; all in expected/1.jsonl: id int64
{"id": 1}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT "id" FROM iceberg_scan('$ROOT/table/metadata/v3.metadata.json');
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v3.metadata.json').select(*('`id`',)).show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v3.metadata.json');
SELECT "id" FROM iceberg.default.t;
-- ClickHouse
-- clickhouse local, started in /
SELECT "id" FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v3.metadata.json');
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v3.metadata.json')
print(table.scan(selected_fields=('id',)).to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v3.metadata.json').select(*('id',)).collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v3.metadata.json').select(*('id',)).to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;Gh2qK3xDZo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H$_Q_VW^#Z*(|$wDAwms8dINp#nO^q+I4=wJa?10{z~?9$B3_^)un0aBBQurWHDi$Z};oR1cRmJ9~Z(M-JDnY9X+LcV)D
?^R5ln(!|Y<`?;f*|ApHXSV|fg0G7TL+52tk5zQT{jGU?@KM4~Z|Z$ZMYVE*Pl*6|U_^SkdcwR@Pg}z^rXiXHHIqfzN#fwusL}zf
Jb{}h49noXeo(V?-yUlBB)lBb6I)hyR+%kmOQ@7fM?iLG@vAwhkv{E5FeqZv;0F-$A?NpGEb{OnKtx~~QiENTd^U-x&bLZZZeto!
sVgUx)q7|+3cYC--y*E9x>d(mPrtWnPS28qtIemEo(kzVf=9W#UO-#E+b<Z_pshGMvh9GRcUk*kBZWdQ7ZF&*Dcy~p)v!JY-p?Kt
NjY#VL@nqr^MOjo7Z_Yrb1Glyzoj|3eS>{q8ew>E#1S~CzAyi`G#;|(Q~f_-n>WNOt<w{WCPacxh31!$Nbg;aD~mr%e+xjbKR2;g
wnSId+*1y1O>NJPJ*xDf$BoSWxWTDxoP~^HM{Skc6UxGl<!?XR>;GwT_uG7A_42@)$^m5D?;c9qY1qFY<1>BIi81|`k?zI>wJK0q
VoDBo=DK+YG9LGSR4OAOlJ=<LtmKoLmd0N%THJ)M?-qnn9{pAi8nMJ@Tg}~E1Xu?;>a&1T)t{E{OfQ84&O&oeg+YaapaLo!2+(N0
*oyj=-xV;ak8>C=69eiuzMxPxmtkB4^>lI~D$nt>3m1G{{WfEY`r>V{36<w;sc13+Kue+X%-!55`J5oK87>D&=viZ~k<=0Ll$crj
o4rOrv}tp#M+mxRwv}h?_cFcuapP*-6Rza#aMndmStoWav@!1k-1`ll>o${1kiD3b<JAFqo$qk1-u%LU2YhGqdJOhx<&^VnjQQA$
(V9#}_EL$=fDi2-+Uwtbazf3jdW0bPs6jYdfiWLLztjewJ}h6C5?>D*v<{-E1zAF-uvgQ2(y^on0bwU<Dr{W$U*j?332O*^o81*E
sV#k{NHiV9Up~hx@+B-tBK8qgYoJZkbazf8O$A;UyV_>V<&NrQcxRU^E5%!<HtP%2X0sn7C;+H;%w`TRBgYKLdd~E3mp2sPW(pJj
`|N1s^kB2!P8TzB8>J^h{`0{q+M1RfO;s2+OuXh&P$m|UHmy^ecn;G|27m?Q8||>i8Mxt%f_!KGTq&e(<asW5fH=+q975P3k=^g)
etP`Nl+PM}Eg~Z+YUY-RN=`xD7Q328xk{4Mzk)nF!3_&teb}f=Cwm7WLK-Guj0X8WZw@W;TVunSn<q}~_PX<#Sw_ih*Z%D}#<L^~
LaT;gOv#5R0k<T&-o*4u!JkdW&Q+*cLXn#0y5@J;GDqC@{y`4ygyKSJzyKp|L%cM#?4^XT@jL0~8B=w*0X%h<DZ$lyFo(;_tF*s*
wuQ;)FHsoVYDr@hrH+i#Q!t=o`54rHJkd_Xu=ez*u2zP7&y?&BbzV#2Q~D}gsC#f=Ux?A=vcZ+!1vqX|oahgU)MtZal0@*b@ah#9
s!h<Bg$fsi+M_HyVr@t_196ulFWr3u^y(FyZwjpC8iV~_nDFDgSS!Dzl`7OtU+#+VkZL6eatdNU`XUedCsVmwJ`MAmdvnCgjq<N*
gaI4AiOB87t*yMmEjmkqEsHj^2q4Oq&w6Vx2k?6vh&}PB$l@J@TC47AmzeOy!KbjU%?EymZe3Qe0I%>j=brRXCANz!ionzkwQ9eW
@Cs~g%aAn$1Dj1kce^X-s(Y?-XML|-6o|ncFe&5?>brcU!-&!TCg4pptNK0Gd4rfF1kXak<_l7HR_f4br^b|0BJmvkoj;7|_*%>l
<78i~ilIYYn@OAJiTl#hQ=a-tT#pbKxl~v>gp3qUtF$Pu<i=NFLoWi5o=rxY>DXfeQ}>kAuGEXDyd}5*fR*R*`7RChKw-E$rogl`
fV+HQYKzY_-to5szrz@+ry4EaQi)2ly;rmdT42#*EAp56O~8WzqB2Si2D4lDlp2Y1MS<`gwX|-O&TJXMD{o&3qycGabm&RW8jUbk
yy<9^&HKAT1C#d25mTwmt!wc}C`Nvp@OEC#soI3p4vL7wFR1^CG^R@15)f9wC$_{@3?=gmL0k_c5u&tEsNlWC!;_eBXO8k#tUbv;
AIh*0HeyFrnypZ(mxruGFzHq^2tQ=)7<P*O^<iC8CyI`rPpR5K*8?)0YqpAlfNKQ<MAHUFTx#|%@E-6qJ}lEoBo{cF7*fY~)7-sH
&LHOMF#96#B>2VhYivw+t4nLO7sum%mPY@eZ8MIhzW3Qkb0Cl`!BX3o_h~x;Z`;s#1-6d@RY#xW{Bk3Qg5lab?=(xi@`plIqRbjz
C={GhmX#RRJEj9ieHgYjuHO~gfxxqD1Rz8j<26GmC?Y-A;MQ)am=$(|-RMx~IlH{R9NP8E=5fp5Z9D*Xee$v`BT^%G#%+mXB^rhk
j=gj(ZA%)0J6h_RMQgK-{C0tt=w;hGN=w;x_mo_~V_hH6+~j5~+sGs<;>9sD&9z)JZZ}oAjqL8jT$`NehpzPg8VO3JK@4q6tYUBM
Pjgg^STgQk?Tr;+3lF3QCE-1bUcISrn!bqLUABRJm2Q)ar3vNAOycvgT<PlhFneSlGwi`=ZWwzx@Yeg>Dvw7~Zw@HtJ?CSl8v|Vf
W*?lW^4)Qp75-1yU>wFky^3sdB38=pUt{#}I^JZ5GDvdY{*8?JqbKw_rH*s17=tbK3!QwC>}jqcFY0qcCFP?{>rc-G!c(_;=d(PC
5-~C(<Hp)>UwO}kFCB;FLNsWUv!L;kZv<>jT}of@Jjt<^UIA%aWCJ&+>^;u{L*)wPlBTDF`^h$+;?Z!sOZeoAg)jv2>=Sw_^67BX
3ob55CF7=pqR|)-xxoo$(L?CVbRni@NF5FU`UcRWYgB;NuV}qvnUNSLny=a&6T@e;$}J&?XLjfUA?BOhngpcq3hqHlx|-FgfB*mh
W3=Kg!$_PW00G((fWQI(k8KbnvBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('spark-iceberg-nested-keys', __doc__, TABLE)
