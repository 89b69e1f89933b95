#!/usr/bin/env python3
"""A row from before a column was added has its initial default

Scenario chdb-iceberg-defaults of harness. The rules:
- iceberg 5.2: Where a missing column comes from. https://iceberg.apache.org/spec/#column-projection
- iceberg 5.15: Default values. https://iceberg.apache.org/spec/#default-values

python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:
$ROOT/table/metadata/v3.metadata.json

== Read 1: all columns
Must give 1 row in any order; all in expected/1.jsonl: id int64, kind string
{"id": 1, "kind": "old"}
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
print(pl.scan_iceberg('$ROOT/table/metadata/v3.metadata.json', reader_override="native").collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v3.metadata.json').to_arrow())

== Read 2: columns id where kind = 'old'
Must give 1 row in any order; all in expected/2.jsonl: id int64
{"id": 1}
-- DuckDB
INSTALL iceberg; LOAD iceberg;
SELECT "id" FROM iceberg_scan('$ROOT/table/metadata/v3.metadata.json') WHERE kind = 'old';
-- Spark
# pyspark 4.1.4: pyspark --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.read.format("iceberg").load('$ROOT/table/metadata/v3.metadata.json').where("kind = 'old'").select(*('`id`',)).show(truncate=False)
-- Trino
-- iceberg.register-table-procedure.enabled=true and fs.hadoop.enabled=true
CALL iceberg.system.register_table('default', 't', 'file://$ROOT/table', 'v3.metadata.json');
SELECT "id" FROM iceberg.default.t WHERE kind = 'old';
-- ClickHouse
-- clickhouse local, started in /
SELECT "id" FROM icebergLocal('$ROOT/table', SETTINGS iceberg_metadata_file_path = 'metadata/v3.metadata.json') WHERE kind = 'old';
-- PyIceberg
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata('$ROOT/table/metadata/v3.metadata.json')
print(table.scan(row_filter="kind = 'old'", selected_fields=('id',)).to_arrow())
-- Polars
import polars as pl
print(pl.scan_iceberg('$ROOT/table/metadata/v3.metadata.json', reader_override="native").filter(pl.sql_expr("kind = 'old'")).select(*('id',)).collect())
-- Daft
import daft
print(daft.read_iceberg('$ROOT/table/metadata/v3.metadata.json').where(daft.sql_expr("kind = 'old'")).select(*('id',)).to_arrow())
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
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;CKHA>RkXbo(e<-Adc&4=<m>nNZm5Xsy)nOXvOOBA{!we(>=aVmw&WgN;CO!;%-Qgk?Lrn
{`5zS&`H%I1oI~WpQvkaT|aeV8MB<0bYGLef}5aawL1^v$iZLei|Bzm0=F=apZ4Jlr5cqxfH_5H#6NM%du{KO6O~3AEtI_0V&(00
SAPN+PvRenP3Zq}O1Ce>Kak78A!uh3SQ`^Q`xcki={WR*>3zzBISUm;%@U_Q71V*t6Js{!J~sqrYM@kU2|45t5GY|jN)olIZ5{@s
*VCj7Dz%8(=f<(Ehf8JKD{w7)>TCP0CWPJWuflwlb(XIn-_I`uQkmNlsX|3drY51_{Q|^m&8VP0ciM98xNWM(=*<osOBOT)%MHPs
+=~L4Zw!yMA*@`z>QD7B<|fIXSN1OB{22NXcs|blUj6L9@Su`lm30#WiF`sz@9CZebRog!J}PYl7|s`duSO$(*4`Hsl~nU&zqR*+
63Fx5<3~Cg{e~$Xi1TBtPE4&x$GvUtmxEG>he|;80)^CXIZXOWT{=Nid_n-qHON5bzJeF)`Obk_+tfD{=Is*BkYoMA?y=-Cq9i5A
9vN~ui*~aUPucjV-XD3o2AD&60^~2tm$6zxj(>>Og-r)m!CBRan+#k;gRT+EdI0foYI7@ZT!*MmTO<rZB5BwnQWgY}SOq^JC&bvs
pQ*?kM#$RbQ}j9VM6F|@K#QSFs<bLxo?5XlhXp4mxS!ZpUy=)<72iNE`G-aY?2DuIjetwG3IUqgDWSC%)D~8#>pq=I(n3U{rrWyf
&DSepj6#16#dtz$^cR(L5APl@tlk~#9A*D=wI165WLJb^ZwetxJ38QQ=tL1=HXE{N?%5(=vFa@ibl-89JZm5i;WQbyO*&%&tSiaJ
mbELb)nLGnSWhDsu==A2JcuStD3BAIlPQuw$F*hEJiZV6c$>Ne*o3^wTMe4ov~Bq@Bn%9hdp4@N*9!;dG*(?KJ%2}y%{<wXY*Fk8
ZntTNA(D4AQ+t^5>xBejli9=90xNr;Q3F6)ELCBETMbLO34N9Zn8n)-h64h-*Dn98^4t6Tj3G}dr1>aY=SBS-m7JawAP6i7<;qB@
CVqlbq&l?fq!{I`-Hp|>D@^f39K*~J+Z8xWxxd05SH~0*{RH|prwP0QBX>r3oVo$9hU{V-HnmmdBvHKov(3&=%43T%Ou598L}Tpu
kIpEPmZRWPq5tRclSLnZ43%h)^QYX#mkdzQs7E_o3Tz#J$o!D5FJD-V0j8&_d)jLx+ytn?E=eh&e18_u)45>*r%P5<6Rq<dVEW7R
_I=}6ZAj6|jMve~WfHKtq3!2_p_I#6_4$?joBtziUzkrL#elZON8K`q5tLi3K-~~m7UV<YP!OfbvG%>DCQo*f>x(rIB1j_gpgim~
o=TVtOlT4g?UV(=FeDXNb@BV8HQ2JmVu#8E|4c;P(EXM(`IgqTs7Z$NU{{n;W5TyPo}Cv-D&_-+h-QV2mz2Dh?_<tfE$vZVzi)6M
4AM23%){5qJ#f$yP`mSIT&V^_Z~P>qBvLVm`w6|Bw$OZ%%%=K2J_wY`;??cYBoK~XbO~6adj(>qaC`f!<L?pQ@<>shnymJX501O{
@m!HcA`Q#hw`RiGe(#P<S%WEU!2+7m!?y!xZxUdSrw~E4Fje968e<fTAVG{yq72QrO-~N(qp?E1QX&_owu1_CIV8ma^iP7ssFoM^
H$W;-X5Ps30*DTJK}x(p+)e|vDXR3U#V+lVEdMnmxJ(gh|8)2hpsK_48A%rE1f@bpwE<KdsK<qNF0(nufF31^arpuVgIe3k0dnJU
Hdq@4Z@HFyN-exw$p0ll`scDxp;P#XWwKrt87P~n%AGU@U}|_%Rb9L{PRpMm>$rc?4{*AWQq`?YF#XEJQiQ-eG^c?4)e=&R*%Xul
zCJq;sIk`II_bs7K^<acvP1G2WlDoo<f8<zg_5*(jxQnIvu*SrwD;dpw3U_f5{lv~FrX@C2sF@=X26N?84Tn$Vdt>O0MVhCMfr={
C+LXl{oe`X4=s#X=X6hsgOJgsR(pvat8*z2xt@C;q?J}mx3SK|?yl_bkP%Z(hh(s29xnd*j*PsN*s@l|A9CagKlO8$Ewm9ZJYNsN
gN<x^bHw$B$f9?`!N~ABPH}A0a@zfKcB%TjVfUgr&35vMG3=aF+03;BqR!H2(`16#7+nZSA&!Um;OhYJuM?0{*@uVV{7D-K@xW)W
CY0Bv%?^7)ltN(91-nR)-tgwCgm&OImzDsA-`I;7pLZP21&S;Bz4G5zJMjO5EgFen(9g3^?;6lwWg@FudIMSh-CD$l)%hdNqt%#x
-I}F!zt)HG81&)yU<WiUBB+_b(??azYWA_MrH@bQm$Eq{ur#MaI1C;n;ZLx6x$_{SiSnL%zT9-S0TUZKULiqpzz>&*%)Bcls(M-@
$->0#Bk&#SU2arY@7S6aIOhoX9Jq#I<U<^-DrNwJgVH721@mBJE>CYvfxac`E9Ut+NqZPk^N={Ld|#>}p>+cehJ?(_mF+^%j$!vQ
Un+DgKuEO<3*#X%x#<A289i7n8VuZYJL+-&(Vgfhkahl)sy^~`uvB*ZZCHL3CWr#Wb19ud00000cL77)?<YE300D*&fbanTFhJTW
vBYQl0ssI200dcD
"""

if __name__ == "__main__":
    main('chdb-iceberg-defaults', __doc__, TABLE)
