"""The jars that Headrace fetches, each pinned to a version and a SHA-256; none is resolved at run time.

A line without indent is a group; under it stand lines `sets artifact version sha256`. The sets: K (the embedded Kafka
broker), S (Spark's Kafka and Avro modules, Protobuf, the JDBC drivers; its JVM's class path is fixed when it starts), C
(Apache Connect, the peer in benchmarks), D (Debezium's JDBC sink, its plugin there), T (Debezium's transforms, the peer
in tests), P and M (Debezium's PostgreSQL and MariaDB sources, plugins in tests), R (Apicurio Registry, one archive), J
(Connect's jars for the host of Java plugins), I (Iceberg's sink, a plugin in tests, without Hadoop's client, which is
in pyspark), X (Iceberg's transforms, the peer in tests), H (HDFS's servers for tests, one jar with all that Hadoop's
client lacks), O (OpenSearch for tests, without log4j, which is in pyspark), L and A (Iceberg's library for tables of a
lake, and the AWS clients that it needs for S3 and Glue; fetched once a connector asks for them), B (Delta's package for
Spark, a reader in tests), N and V (K and C of Kafka 4.4.0, whose connect-file and connect-mirror Ivy did not
find, so V has those of 4.3.1), Y and Z (Debezium's PostgreSQL sources of 1.9 and 2.7, one archive each, plugins in
tests), Q (the connectors of Kafka's own tests, without Jackson, which is in J) and E (the compiler of Headrace's own
Java).
`version:classifier@extension` names other artifacts than plain jars. Ivy resolved the closures once; they were written
out, so nothing floats. kafka-clients below 3.9.2 must never appear here (CVE-2026-35554). slf4j stays on 1.7 because
Kafka does, hence log4j-slf4j-impl and not log4j-slf4j2-impl.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

KAFKA_VERSION: Final = "4.3.1"
KAFKA_SETS: Final = {KAFKA_VERSION: ("kafka", "connect"), "4.4.0": ("kafka-4.4", "connect-4.4")}
"""The versions that a broker and Apache's worker can have, with the sets of jars of both."""
REGISTRY_VERSION: Final = "3.3.3"

SETS: Final = {
    "kafka": "K",
    "spark": "S",
    "connect": "C",
    "kafka-4.4": "N",
    "connect-4.4": "V",
    "registry": "R",
    "debezium": "D",
    "debezium-transforms": "T",
    "hdfs": "H",
    "java": "J",
    "debezium-postgres": "P",
    "debezium-mariadb": "M",
    "iceberg": "I",
    "compiler": "E",
    "opensearch": "O",
    "lake": "L",
    "lake-aws": "A",
    "iceberg-transforms": "X",
    "delta": "B",
    "debezium-1": "Y",
    "debezium-2": "Z",
    "kafka-test-plugins": "Q",
}

_PINNED: Final = """
at.yawk.lz4
  KCJ lz4-java 1.10.2 252dabd586d22149a31661a8afc1a50747714eb1a298bd4a6e780c8c91a13866
  NV lz4-java 1.11.2 8a7458657938e9b692224db83aac458c13abd7a59ab75c3d3b08bd2233a646a2
com.dynatrace.hash4j
  KN hash4j 0.22.0 23028a3fd006e530bf495f551083208187cafd8f80624d048eba56442f16a50e
com.fasterxml.jackson.core
  KCJINV jackson-annotations 2.21 53ca085f4a150f703f49e1aabd935bd03b43e1ea3d55d135438292af22cef56b
  O jackson-core 2.18.2 d8054ae7c0d1c2d2f55d28e46026ebe5892881f3fab5f439233184381c3b4a1f
  KCJI jackson-core 2.21.2 12e8655b100267b44d0f14d01b1f5082a5105e616174dc4307be1a761e92407b
  NV jackson-core 2.21.7 8c5623b98f32d5f7e1287ff61ed50e08ab7b11381e991fff89327faabba42261
  KCJI jackson-databind 2.21.2 8c982f01f148d805f0aaac2339011244757e0df7c6ff8951f2fa3f433b8ed849
  NV jackson-databind 2.21.7 1290c2795e93e8a6861a6c4d9ff0d844d32f5ea178362cb2721edf5561e828b1
com.fasterxml.jackson.dataformat
  O jackson-dataformat-cbor 2.18.2 85aad1b6111f5f4d1da3603958daf9b245c6f6435c691ea2bb6fab1aef330a17
  K jackson-dataformat-csv 2.21.2 682f8c7977e02a42748426bf54946e32e52e2f80b84b6642801ab12bd541368a
  O jackson-dataformat-smile 2.18.2 efd01ab51100261eb76302774449107634ad2878f2c44ca417a3300252e0614a
  O jackson-dataformat-yaml 2.18.2 381a1c0711e4bb88561a6c0008b5a945465628ca07764ccd66a0d97ee07ad612
  K jackson-dataformat-yaml 2.21.2 d25551812fa0c14f37cabaa9401e63eadcea42ce36311183af5622d5bc8a1bc7
  N jackson-dataformat-yaml 2.21.7 df2b3e6a194181dc067b7211d750926b4ae9e4f3c892a0005b8219a9b59be681
com.fasterxml.jackson.datatype
  KCJ jackson-datatype-jdk8 2.21.2 e581bbf3fc5622d16b57366dd41e10fc56921fb202879de2ef487f87dd9b30e7
  NV jackson-datatype-jdk8 2.21.7 b8f62f98363ed9aa259b3a479a64fcbe7e081158a8bec6733972e900d12f4e47
com.fasterxml.jackson.jakarta.rs
  C jackson-jakarta-rs-base 2.21.2 40f4c57a2e6f34505338da188724e7ace7b343dde3964b76a12c993cdedad1af
  V jackson-jakarta-rs-base 2.21.7 202b61a95e735d01ae03e411b8f6ae1245bbf19c87d4746c0204579f5c2e456b
  C jackson-jakarta-rs-json-provider 2.21.2 ca969ea798efedc4b56589505fab51eb69c11a361b2e7583855593fc8690a666
  V jackson-jakarta-rs-json-provider 2.21.7 32473ee172e0c181ba63688ee4a94349de77de05bd4279d0846a9515a56bb0fe
com.fasterxml.jackson.module
  CJ jackson-module-blackbird 2.21.2 5ed62cdcd357a24b73de9280e167aa014d7b4c17d04823844d482274cf07097e
  V jackson-module-blackbird 2.21.7 b41fb816cbaa5f2393136cf1c525e0d9a9f9bcea14207a09e8e703df53351596
  C jackson-module-jakarta-xmlbind-annotations 2.21.2 f507551c823b137c8487275fc171652a78a4f083732e349e1d3cb42e568dd7e4
  V jackson-module-jakarta-xmlbind-annotations 2.21.7 76054ca6e252e7142fec9c0e9a146bd8c43cde13dddf2d1cdaecd9db981c2ddc
com.github.ben-manes.caffeine
  KIN caffeine 3.2.0 ec411dfdf0c03f25218648ce89861630b71680e5858a9a7278ebac8e55cab3d7
com.github.luben
  O zstd-jni 1.5.5-5 c78d4e139894f555d956d12fbfcf3d45af751d4b2f183880ed5f99b69b284416
  KCJI zstd-jni 1.5.6-10 b6c3237e24b8252a5a9c3a0e1ae30ef8f323412e74bd358548b7a9e527d676df
  NV zstd-jni 1.5.7-17 c9043e2da8a16c13b6cd7661a5cb56685a573c3546ef4bd0ead67b0b67c2e107
com.google.protobuf
  SPO protobuf-java 3.25.5 8540247fad9e06baefa8fb45eb313802d019f485f14300e0f9d6b556ed88e753
com.google.re2j
  KN re2j 1.8 7b52c72156dd7f98b3237a5b35c1d34fba381b21048c89208913ad80a45dfbd7
com.sun.activation
  CV jakarta.activation 2.0.1 b9e24b7dd6e07495562ea96531be3130c96dba4d78e1dfd88adbbdebf4332871
com.tdunning
  O t-digest 3.2 03db291a8887b474f90db67bfb1f92d084e990150037e231babbb374ee11d7c3
com.typesafe.scala-logging
  KN scala-logging_2.13 3.9.6 0ad0c3f4d89d538b3b6c300158555e266aa69cf1b5f6522aba8b5bad238eb994
com.yammer.metrics
  KN metrics-core 2.2.0 6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c
commons-beanutils
  KN commons-beanutils 1.11.0 9e44ba68ec9a3f21286fa2a8bbb003b735c0f69101bb43144b79f4f8aaa74709
commons-collections
  KN commons-collections 3.2.2 eeeae917917144a68a741d4c0dff66aa5c5c5fd85593ff217bced3fc8ca783b8
commons-digester
  KN commons-digester 2.1 e0b2b980a84fc6533c5ce291f1917b32c507f62bcad64198fff44368c2196a3d
commons-logging
  KN commons-logging 1.3.5 6d7a744e4027649fbb50895df9497d109f98c766a637062fe8d2eabbb3140ba4
commons-validator
  KN commons-validator 1.10.1 ed74711a78d793ca37f6075e4a1e93d107233dfd20d0bb17e32bad88d38e56aa
io.apicurio
  R apicurio-registry-app 3.3.3:all@tar.gz 8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63
io.debezium
  TPM debezium-api 3.5.0.Final d1267b742b9a83b5c0c3e24d417f75c93dc5d4640d5fcee7d24390a0ddf96cb3
  TPM debezium-config 3.5.0.Final 9430a5bb4dc9f6ee12015c3e3925f14a3e07906ccdf005a295be116ea5e0d5c8
  TPM debezium-connect-plugins 3.5.0.Final 0c8579e75dbe0f4993a87fe8e85baa39b87170412348121dc67837740d080dbf
  M debezium-connector-binlog 3.5.0.Final 802a269457f5ca2eadec2332ec778006dcae634ba8d0b6ee7364beac91fa2b12
  TPM debezium-connector-common 3.5.0.Final 68b87943d99eb36c2c9639c132ff3528eed87e057d137df93e60d291db149dd4
  D debezium-connector-jdbc 3.5.0.Final:plugin@tar.gz 8547b496548cab71cc0029edd96ddd666e667e2d649fd0770a28b5c3bb9e26dd
  M debezium-connector-mariadb 3.5.0.Final 6ea239f23d74486a77e89cceae11120f208e9f832ccdff9d88cb629ce298e890
  Y debezium-connector-postgres 1.9.7.Final:plugin@tar.gz \
    e411a62abc6325c385f20f1e7e7cb05683f6af83efa6652ff1f80f2cb4dc4b4e
  Z debezium-connector-postgres 2.7.4.Final:plugin@tar.gz \
    2a6eb678533e05537b58ee3cb698c3b42299d11b4ed574e7306c9bba22aaf061
  P debezium-connector-postgres 3.5.0.Final 266b46d47b3bf66ffd484ffae01da40be52399f9b012b75e8f36909ac35a3f17
  M debezium-ddl-parser 3.5.0.Final 41dc0fb39cd0366cff67b02fa3e89ca83664d6748154737c18d2b2502a6a32b5
  PM debezium-openlineage-api 3.5.0.Final ac6ec9bbcae42cb5bc05200f9f2c5268d591b6abadc2ec209df7cffdcdc5f5fe
  M debezium-storage-file 3.5.0.Final ffdacc74d296dda0ce37e5a67812e1ebdc56945bc23076a5d71949a6828d8ed7
  M debezium-storage-kafka 3.5.0.Final dc36614e975459a82192f81fb1b273845ba4e242a675d6322ceb6700d6f47801
  TPM debezium-util 3.5.0.Final ca5ba9a7f89b0a3f6f38ea37e88ac77fdc64b508a44ea5fc9b6a19cce22a7234
  M mysql-binlog-connector-java 0.40.6 0bb2363f3632afa4bd84b38b1a9cf9c2918a9eff98c62943f679c8312ff58dcc
io.delta
  B delta-spark_4.2_2.13 4.4.0 27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead
  B delta-storage 4.4.0 c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc
io.github.classgraph
  CV classgraph 4.8.179 16558357f234052370109127a45d69a9bd6d8646925594792634486dc48b159d
io.netty
  O netty-buffer 4.1.121.Final 7d6ce32479f6f1326637ba118061bad31c3f7279f5fc2887aae8cba2526dcbff
  O netty-codec 4.1.121.Final 140f3a8d784aefd81700383471bd9220feb3438e5b1f441b6f80548529d9d516
  O netty-codec-http 4.1.121.Final 5dab40173bdf9219a7d9f3ae94acb0659d5c0e20ff6d5ffbd7b39a1268c31c1a
  O netty-common 4.1.121.Final 58ddcad98fa2dbe69c9080e53e56e65cd50f61a3e45106b423cbad06b572a689
  O netty-handler 4.1.121.Final ddf550c1f3dfc4fcf2cbfca483474ac68941df2cce4cc3e5bddcbb15065c5169
  O netty-resolver 4.1.121.Final 50ce227a5eb56e0b2e6b6c4e619de42350cbb9dff0728b906e3be8ad89158e87
  O netty-transport 4.1.121.Final 2dcc65e700858d3b080efb5a8af85a2de93d80b4616161fe031913fd840236ef
  O netty-transport-native-unix-common 4.1.121.Final d8c368a320f5478e5745eee3525aca011219d61b848bc1c11e047ed18104bdea
io.projectreactor
  O reactor-core 3.5.20 aa392c5df0790af7b580595b9f809661446613735125b95eed76fae6a2f4c6b6
io.swagger.core.v3
  C swagger-annotations 2.2.39 ea3017076809f8104ff8a130dc4c12db8c67595aa1d978104a9beca8277a7d29
  V swagger-annotations 2.2.52 f086c5ca01eb0a2f8b6709d892203629a0fcff6d21701fc2f900f288d12e9c43
jakarta.activation
  CV jakarta.activation-api 2.1.0 56e8d994095fe49c28138c60291482f66f18d12ac2b720e938697dce6a3135c7
jakarta.annotation
  O jakarta.annotation-api 1.3.5 85fb03fc054cdf4efca8efd9b6712bbb418e1ab98241c4539c8585bbc23e1b8a
  CV jakarta.annotation-api 2.1.1 5f65fdaf424eee2b55e1d882ba9bb376be93fb09b37b808be6e22e8851c909fe
jakarta.inject
  CV jakarta.inject-api 2.0.1 f7dc98062fccf14126abb751b64fab12c312566e8cbdc8483598bffcea93af7c
jakarta.servlet
  CV jakarta.servlet-api 6.0.0 c034eb1afb158987dbb53a5fea0cadf611c8dae8daadd59c44d9d5ab70129cef
jakarta.validation
  CV jakarta.validation-api 3.0.2 291c25e6910cc6a7ebd96d4c6baebf6d7c37676c5482c2d96146e901b62c1fc9
jakarta.ws.rs
  CV jakarta.ws.rs-api 3.1.0 6b3b3628b8b4aedda0d24c3354335e985497d8ef3c510b8f3028e920d5b8663d
jakarta.xml.bind
  CV jakarta.xml.bind-api 3.0.1 b8fb4bee3ff5b5c1ef77144d8411316018d7bbd41fcf1ede0646f7978546b867
javax.activation
  CV activation 1.1.1 ae475120e9fcd99b4b00b38329bd61cdc5eb754eee03fe66c01f50e137724f99
  CV javax.activation-api 1.2.0 43fdef0b5b6ceb31b0424b208b930c74ab58fac2ceeb7b3f6fd3aeb8b5ca4393
javax.xml.bind
  CV jaxb-api 2.3.1 88b955a0df57880a26a74708bc34f74dcaf8ebf4e78843a28b50eae945732b06
joda-time
  O joda-time 2.12.7 385282b005818cfaccdbe8bd2429811e7e641782f2b88932a6b8ff51d668f616
net.sf.jopt-simple
  KON jopt-simple 5.0.4 df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28
net.sourceforge.argparse4j
  KCNV argparse4j 0.7.0 65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56
org.antlr
  M antlr4-runtime 4.10.1 da66be0c98acfb29bc708300d05f1a3269c40f9984a4cb9251cf2ba1898d1334
  O antlr4-runtime 4.13.1 54665d2838cc66458343468efc539e454fc95b46a8a04b13c6ac43fc9be63505
org.apache.avro
  I avro 1.12.0 1f5fbfff9b7427d6832cc3031a3c81413d3e21d9e2551847d9231c28493f9492
org.apache.commons
  S commons-pool2 2.12.0 6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b
org.apache.hadoop
  H hadoop-client-minicluster 3.5.0 06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c
org.apache.iceberg
  I iceberg-api 1.9.2 698ba4cc86f4a36357b46e1b2c5a45a34a855139408c8f6e672bca20f68a4ed5
  A iceberg-aws-bundle 1.12.0 dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957
  IX iceberg-bundled-guava 1.9.2 c1545656a3e4b4ff17f53629cc357c5d25ada492dab7964ad4cfbc387417c39d
  I iceberg-common 1.9.2 9213b3d34881f0c7fe6476d09fe0a116b3c590af076c29946bd505743a24129f
  I iceberg-core 1.9.2 a619c25332f477604e5ee9363a4df9202a86ea4580a865e882ad9e8bc62682d5
  I iceberg-data 1.9.2 36ed39583f3690057a7d03eb93436dbe69552fa3425b7d81de241646f7903116
  I iceberg-kafka-connect 1.9.2 57237e3213cf78a86a12220d69088d104e650554f601856a01d10ce286bf3d72
  I iceberg-kafka-connect-events 1.9.2 d6640ab05dd50b89abb16f2062fce3eb73a99c88754824749626de1a0a640088
  X iceberg-kafka-connect-transforms 1.12.0 956353dd8daa81ae0bc0decb81b5c1866431ca0ea78f9d1056459f2f8caac65e
  I iceberg-parquet 1.9.2 a0d388c7e7c24ace4be2a3eb9fc161ab469fcc62c21c1fa073129a0d58aa5ebb
  L iceberg-spark-runtime-4.1_2.13 1.12.0 3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82
org.apache.kafka
  CJ connect-api 4.3.1 5ce6158d453d2d84ab3509260fff872c67fb532a51519da6acafc6835bc48cfe
  V connect-api 4.4.0 1f13c2617cb3ff39924a6d7a1265b3582b09f35c146c1547b38ebd308c8b61eb
  CV connect-file 4.3.1 e330c491309d8f839f2abd7260c72a3687d6d82ecf2ba0f7699a46d41a46dcac
  CJ connect-json 4.3.1 ebd6d4900eb6835f30c6ce74b5f6d4a4fdc19e0a4a1de8da2f4463ea3ef20e41
  V connect-json 4.4.0 0136d64e5cc05c1597e0dccbba8da83857809f5eb696e24ce1764bf4238646b2
  CV connect-mirror 4.3.1 0d091c7ba172827dc42ed09fdf4390876a90ab627fd8d2bb002016f9785617e1
  CV connect-mirror-client 4.3.1 c11ebb023021dccb8f18c6b57019b9dbe7c74e0b9495196a895a5d40b9faf1a8
  CJ connect-runtime 4.3.1 9df3d2f78f8a1740af358dd78ccdf1396559223e0cfbf1a697ab9363dead6175
  V connect-runtime 4.4.0 521978fca63e4310ab7a40199406fbc4dde026806c06917a2712161f6d5010c3
  Q connect-test-plugins 4.3.1 08edbac8d0d9e02f088d847984c7456d500201e95a42e6128b9a8d33ebd6b9ab
  CJ connect-transforms 4.3.1 060bb300977304b53f9aebe79a3298c06a3d4240cb58b01e06eaa75abf4168eb
  V connect-transforms 4.4.0 d35aca9af5eada32721f751a2d7c53f0ef0eb9ae6bef839250f4b0a9064da4fb
  KSCJ kafka-clients 4.3.1 52501b7b47510c66f898871adaf6d2968ab7246561d44ced43643a8a587f0b36
  NV kafka-clients 4.4.0 1ab07317eb6633241392449d329dbdc5d9251e6ffc4926860f42dd966e88bdf9
  K kafka-coordinator-common 4.3.1 66a86b8c89718216ffa72fe4e44b9d1bdf3472e4cb9200c36a0742a25febbdba
  N kafka-coordinator-common 4.4.0 e380267a17981edbadaa2e2e785f18dc1b5671abf2d1084eb7da06a765c71d0c
  K kafka-group-coordinator 4.3.1 4ab56d002e1624185c874199e9e0ffb243dbeb9f68b4d0cadf48ce2f617a1126
  N kafka-group-coordinator 4.4.0 3fc830ace54f6a13f9f536bc0564bf39a68797365a4c4b194bd7db4fb893b2bc
  K kafka-group-coordinator-api 4.3.1 d81bc1a3739ff6c9b21815baae00022306342a16d3d94e6a2621201b9980a30d
  N kafka-group-coordinator-api 4.4.0 bf11d7586c7363ba72a16ac5ef80c65365de9166469f7f6fc4ac5d2e0a98213a
  K kafka-metadata 4.3.1 4d73a96c6474a4ebdd67a1cee14da1a94cfd6bb9e6e252685ba5667d8ab7f898
  N kafka-metadata 4.4.0 6c52de74ecd670332e1e1324f5d40311275ac49b22699b6722e5fb07dd266fcb
  K kafka-raft 4.3.1 46abbf89806dd22d848e997cdfb1431524cab4ec88e38a7d2806e20b24a70609
  N kafka-raft 4.4.0 687f278ce5d82b7f53644643e21e1a7452530f202826108990f0fe4f3d334d4f
  K kafka-server 4.3.1 01d736599ec3b0cdbb0480c15219170b28cdae189785e7f0c6f1f26e528eaebc
  N kafka-server 4.4.0 5f5456c2976203525080220212639f7033274b94458ceabf44197f4800bd615c
  KQ kafka-server-common 4.3.1 d7c719f749579a399011f0df7414de8a78f10f074a6122caa550fdb141351575
  N kafka-server-common 4.4.0 e50931831a27a2f3eb6cf74e8d63cc325b4e98656f30e94f8829297951ca5080
  K kafka-share-coordinator 4.3.1 8ceeed7346127e652ea5c650b217890aaff14919f967d27fadce420745bd3066
  N kafka-share-coordinator 4.4.0 6969a7961ca98d37a039bbe0af0fe761d6b0dd07ca9666802f47821167afbb6e
  K kafka-storage 4.3.1 97e3facddd2914a58f28ec91ef35f8da69963eab3651196e97f487924f6dac98
  N kafka-storage 4.4.0 9eaa4dafacc251080ece0efa8511283da5de6931e843457f6af87f02f9b50039
  K kafka-storage-api 4.3.1 bc2b22639fa554494461d101d599e01bae840d97c4f46e18fdf3d2fe41a47098
  N kafka-storage-api 4.4.0 edd47a86cdce283fc15d033090417a5dec29642eb807713f2e807e3c46b5ca46
  K kafka-tools-api 4.3.1 dcf6785742e0c8ab11a0fc09c62f1192e11e997dc629669a8db82aa40d933c31
  N kafka-tools-api 4.4.0 348b63a7d22739703ad34613a1154702568d462c3a8adb1dd655482251f4e529
  K kafka-transaction-coordinator 4.3.1 c64aaa2a88d8fd382c4800204872917686e542043c7916c9e8797d939d8eb313
  N kafka-transaction-coordinator 4.4.0 1d5324d59776d6b7f324cfdc87647b1e88f9823332201c0324e7ae9f210d915d
  K kafka_2.13 4.3.1 b098abef5ff878e76f60cd6c559b9baa5663ccb1b55f2837558b22c329d32423
  N kafka_2.13 4.4.0 76d3314f873571677ff98620ab9a431e508e3687f921a3df4f70d692a970475e
org.apache.logging.log4j
  KCJ log4j-api 2.25.4 c4b642a7f047275215de117e0e3847eb2c7711d84a0aa7433e7b3c096daf341d
  NV log4j-api 2.25.5 64777f73ea0b3104c04eb82befbdccc30a425a19e83ad06cb2f93aa303511863
  KCJ log4j-core 2.25.4 10fee2c0485d54fa44ee75d314f6295508f7b932281873db61a91b88073200e6
  NV log4j-core 2.25.5 050c4f85deb48b055e9c041ac39043fbb79ce477841a11a1eb2969c86c6a0072
  KCJ log4j-slf4j-impl 2.25.4 7ac68a0afcc83d54f48d116d79370a43f0a2a6b71b5c1d6dda943bb6a95ddbaa
  NV log4j-slf4j-impl 2.25.5 3d25b926bc6025c47ec010459749c12aa66b9d5537ba1922d67d89a098a66607
org.apache.lucene
  O lucene-analysis-common 9.12.2 a472f61b4d7738787bf1a637beac0ebf134d785c37aa069fb071e9715568c8b8
  O lucene-backward-codecs 9.12.2 4a027b24ab6213402c4af76aeae7344771548743822880aec09817e76a4690e9
  O lucene-core 9.12.2 3a5426c7082a16adfe39a55502eecf4e69547e62d3dcf292c730e228fbaad2fd
  O lucene-grouping 9.12.2 d3255d0279e1a41cf145f3d01019dda6ba9d7e2d3185f4170570072baf8e95ca
  O lucene-highlighter 9.12.2 e0ce89f860e7e450ac08500c40f2b7a221b161610d12df9f50a6a49b2547863a
  O lucene-join 9.12.2 94d5fa2fd7e0f7e0711717b3e23bb148a5a356270c5e6cda720070a4d092276e
  O lucene-memory 9.12.2 6222e7d436c380652e51bc4c4c27a8a56c7f9e70d7aa0fad07a76b85bd52dcb2
  O lucene-misc 9.12.2 20eaded0c0b6141aed36359a551bad300eb8b5264b904110de7d845bad858df1
  O lucene-queries 9.12.2 8c07692e0acacd7433f14107296e9d3402d6d435d4c4ed2aa6412e9b90d3d6b4
  O lucene-queryparser 9.12.2 dc80ae71863446b5251e93ec258ba959aecb44f0800623947262860e8efff4d0
  O lucene-sandbox 9.12.2 f44f1f534709f2b70ef9f12bfe090f97801f88be84d2edc3c18495f0c761978d
  O lucene-spatial-extras 9.12.2 16cfd9f14eef7a97d8549f6de5761213053f28079d859228e5d65b4a20a4ffc3
  O lucene-spatial3d 9.12.2 b3d649a9c328418e195d82bc63301e6e0c8c702308b74a57ef630d6f8e5899d9
  O lucene-suggest 9.12.2 fab3ef755412d4563c79771264d28202f2a900d3bb826667d9eea48d01bf3822
org.apache.maven
  CJ maven-artifact 3.9.15 f154c31f15ac97c37b9cdf9f8d63cde5053c470d2daf54df7dfd3bb3c9e501c6
  V maven-artifact 3.9.16 54cc1c1ef932e3d4a903352111b42b4d3c3ed8e7a1d0de73b625309d9c3ad3e8
org.apache.parquet
  I parquet-avro 1.15.2 ffb32d4245648338966d82c9aedd461efb8785fbea27d85b2f2d1ac2a14e6808
  I parquet-column 1.15.2 856e759164450d1373e98f761968bd19a6a26899c2f93720770501a1b0e59e4c
  I parquet-common 1.15.2 a1e57537661f18f259d342a93123db10b5796e30a0585d0652af987ea7c33596
  I parquet-encoding 1.15.2 da2b2df9749cce2eee3205a6f4ec07612f985d51aebbd8f5861d8ec344824dc1
  I parquet-format-structures 1.15.2 417175f24f18e50f82873d604f36532c6b1c924611c4357dff5851c631d87a45
  I parquet-hadoop 1.15.2 a9015cbd8548a43bed459d1ee5cbc2748110f1cf484fdab785e5171e515d810f
  I parquet-jackson 1.15.2 0df26fcc7958e155da758676cdcc1028702d1876e62e4f87c406cee42cffcfe4
org.apache.spark
  S spark-avro_2.13 4.1.1 6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d
  S spark-sql-kafka-0-10_2.13 4.2.0 64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705
  S spark-token-provider-kafka-0-10_2.13 4.0.0 f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767
org.bitbucket.b_c
  KCJNV jose4j 0.9.6 7314af50cde9c99e8eaf43eee617a23edcc6bb43036221064355094999d837ef
org.codehaus.plexus
  CJV plexus-utils 3.6.1 05a63effd67e2d6b9d610cc82e2bd7473289d34802e57a529b28110f28af5679
org.eclipse.jdt
  E ecj 3.44.0 14c46ddc2e511c46c998da728f6a80f13a689c920f3832402f7ad150f6a6188d
org.eclipse.jetty
  C jetty-alpn-client 12.0.34 dde78ab533961bb853a8ce5a23a90d4dd54cd6522e9e7f90566ca7f44e035ef9
  V jetty-alpn-client 12.0.39 131fd1b0d62872f44f92332c061397cebf0480898b7b302740d08c1a853e3d08
  C jetty-client 12.0.34 b77b7535a809c78af71126b90aed0836cc9f9ac80d32e5cbf7a07025ace14401
  V jetty-client 12.0.39 bc2bf4cc3942a34f0ac0ba30ca343bc54d4698d6a5f4b0eba8b84425208923ca
  C jetty-http 12.0.34 63890ecc5bb8bf26c4dd0952ef2d0d3dd3f7434b37b21e51f7ea8dfbe96b9dc0
  V jetty-http 12.0.39 1bbccba6e05bb1e738018d224e00455a81260a89faa97b6b56f1998149b2ce01
  C jetty-io 12.0.34 3704daeb82b39041ee5e6f810636c2fcb9a10476cdbf0fd067e584ed3110d66a
  V jetty-io 12.0.39 b021ebb8eb8d9074b98184ff83f8e57dc224b86c4414e72cf77f9d314149a77d
  C jetty-security 12.0.34 e9a595eff775859a5461c0ce05e27ace5182ee1fdc1b17016453fa41ca0e1560
  V jetty-security 12.0.39 88d9c86676f49d64fa19a7c43be368b1b8726b910f70185ce8df723ea2224b35
  C jetty-server 12.0.34 fb7a1401b7b2358e9cb975764c54fac72fcecd7ae5199369041118603cd3fd7d
  V jetty-server 12.0.39 3a2f2c445016ce2371d1a0577a9e69c225f9b82d431bac6bb4e530bf30b010bf
  C jetty-session 12.0.34 a161ae531c5d6a695f17a547fdf90746dcd929f1abac5c60c7061a6fb20d346f
  V jetty-session 12.0.39 62de5256e331f68c7191533dbd928197b99221293054cb339be7c790636f3007
  C jetty-util 12.0.34 3f8906cd72428d87dbbc0bd915192ce0f426e9db7805d3b0337588c1b6d7206e
  V jetty-util 12.0.39 5034589c368cce15eb80171f41c399391b60d3649bde2bafe48f4b6a1c7e84df
org.eclipse.jetty.ee10
  C jetty-ee10-servlet 12.0.34 08030501c5868ba348e0e349121cb3493586c29d438c725bf76b0559e8d5f5ed
  V jetty-ee10-servlet 12.0.39 310d0f0f803575fac4d1550ac0dc7c4f7e60f86f1867c747391dc936031e7797
  C jetty-ee10-servlets 12.0.34 bf9fe841e09f39d498838965b57e52b79f12e7bd5e259e645cc9e0a6cbe96426
  V jetty-ee10-servlets 12.0.39 9231f22549934b0d10588154f86459b2eec8ccb50c3ec493c1dde4d2d12d9543
org.glassfish.hk2
  CV hk2-api 3.0.6 c049a21a9fd9316c7e291a2bc28835f70d25affb623dc1599a83b6b84ec83a4f
  CV hk2-locator 3.0.6 e2664d21b017c3aa1518b913264602bea604edc54d356103c10afba99abd04fc
  CV hk2-utils 3.0.6 fc84d85a0744b576d9ec7db5845eeb998ed532a9450dd19c8c922c3ee6926206
  CV osgi-resource-locator 1.0.3 aab5d7849f7cfcda2cc7c541ba1bd365151d42276f151c825387245dfde3dd74
org.glassfish.hk2.external
  CV aopalliance-repackaged 3.0.6 a82b6d1a348324ef88dc807c7cd7aaf633985cbff7b30036fb61a1b86981d840
org.glassfish.jersey.containers
  CV jersey-container-servlet 3.1.10 4aadc66d2d36afb273b3898581d6aa51e0f992308d56fd51b8e3201efa461f67
  CV jersey-container-servlet-core 3.1.10 fd15e7e37215d772ccdae8d4076c41a11ad3fec9ca88a1f8a8f6dacf4663bb69
org.glassfish.jersey.core
  CV jersey-client 3.1.10 96cf86c23b515da20a30a39633a920f12a420d1e5f02c55ef5577ca2694d11c6
  CV jersey-common 3.1.10 b8df5de87d48d6abf555f340755a056c8cb29a660af958e959db8a4cb3552b54
  CV jersey-server 3.1.10 1b33a9be417b72f7ceef3afe9780781b66122b0f1db78f2f82502988072cfab0
org.glassfish.jersey.inject
  CV jersey-hk2 3.1.10 00ed71c496a856ac1f73272482a7abe27b5a96b823c29cc08f4b708c8d3e647e
org.hdrhistogram
  KON HdrHistogram 2.2.2 22d1d4316c4ec13a68b559e98c8256d69071593731da96136640f864fa14fad8
org.javassist
  CV javassist 3.30.2-GA eba37290994b5e4868f3af98ff113f6244a6b099385d9ad46881307d3cb01aaf
org.jspecify
  KN jspecify 1.0.0 1fad6e6be7557781e4d33729d49ae1cdc8fdda6fe477bb0cc68ce351eafdfbab
org.mariadb.jdbc
  SM mariadb-java-client 3.5.11 42604178b9e57ec08ee0035079961516f086e455d0141f0b22c6eff29fb2fff4
org.opensearch
  O opensearch 2.19.3 e3137e61b08b6e9a047b104f2dd52b7cd7f6cb0f72dd9d8c0c1da93833de3295
  O opensearch-cli 2.19.3 056b63087fdc59dceb5ec32aadbb0894a3122fcefdf7e8145be6a974ba29654f
  O opensearch-common 2.19.3 ab072a771d65f79001ddbb2fb8513983892307991abc5b02ccc886996bf3daac
  O opensearch-compress 2.19.3 3b89e61a751636d1ff211950c7a91ce52afcd4b5e16453af42c89ff3592819cf
  O opensearch-core 2.19.3 ebaceb0cdfe07cd82556d09fc0309ee09cd9b2c4e77a937ad41a3c93e3e9082d
  O opensearch-geo 2.19.3 3d014d4b61fa1ad9b5a934ed0b0e6d9339e3f07c27b0b7ecb0502ab06c27459a
  O opensearch-secure-sm 2.19.3 b2b88634e72cfffe43fd6ff63efe0f09bbb30e1cd2391a3d8c722e87b526adbd
  O opensearch-task-commons 2.19.3 544ca31b33ca9cd82268152a5f8842d3de284585cb6935b67c6bb57735ecd150
  O opensearch-telemetry 2.19.3 133472e3f6e38ce3649c6f38a8578bf8e0d9394011f94eab83f72714dbaa21cc
  O opensearch-x-content 2.19.3 b9df56ed00bff21a7842aaa003e5d1278262e5e5096fa36b6c164e42a37b3949
org.opensearch.plugin
  O analysis-common 2.19.3 2e94b65f3c142644cb2581298b587a9b2449bf68c0c74d5f0bd49e8457228022
  O lang-painless 2.19.3 b5cfd4ef2361b481f3f3c7de00032a13de8b3197681a77c5d38f51a1a8763df0
  O opensearch-scripting-painless-spi 2.19.3 195476e538bdd293fe6ee99d3eed121e43032f4505902e10129db7ddbd83cbbc
  O transport-netty4-client 2.19.3 eae88c88f4b37ff16e0f9e25f397929ff25482e27a12aea684ddf14758ee4710
org.ow2.asm
  O asm 9.7 adf46d5e34940bdf148ecdd26a9ee8eea94496a72034ff7141066b3eea5c4e9d
  O asm-analysis 9.7 7bc6bcbc21379948a0c8c467fb0f864206e5b818f6bc0b546872f5c9f941556f
  O asm-commons 9.7 389bc247958e049fc9a0408d398c92c6d370c18035120395d4cba1d9d9304b7a
  O asm-tree 9.7 62f4b3bc436045c1acb5c3ba2d8ec556ec3369093d7f5d06c747eb04b56d52b1
  O asm-util 9.7 37a6414d36641973f1af104937c95d6d921b2ddb4d612c66c5a9f2b13fc14211
org.pcollections
  KN pcollections 4.0.2 2bbeef5797a241300c4f7513cd546239629ed7deda4fc0c31df90bb95f5f13ef
org.postgresql
  SP postgresql 42.7.11 1981b31d3993c58702783c1cddf10a34e48c1f413d70ff1cb6def0a143484647
org.reactivestreams
  O reactive-streams 1.0.4 f75ca597789b3dac58f61857b9ac2e1034a68fa672db35055a8fb4509e325f28
org.roaringbitmap
  O RoaringBitmap 1.3.0 73443a71a2e2401c7d518a487983539fcaf5f9652efbd178f929e7b6d36881d0
org.scala-lang
  KN scala-library 2.13.18 4e85d96ff7bc7dc627985523c3541b9917aaa08e956391380c42db21a2c4e5a0
  KN scala-reflect 2.13.18 6935ff1982b2ac93d695f15aa66921be2f602921277afe002f018fd8c7d6e29b
org.slf4j
  KCJNV slf4j-api 1.7.36 d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0
org.xerial
  S sqlite-jdbc 3.53.4.0 bcb1f51e36f940867e83342f9efbf5968ac44a6bef4d397bb4af7b17b45cd2fb
org.xerial.snappy
  KCJINV snappy-java 1.1.10.7 4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36
org.yaml
  O snakeyaml 2.1 69a4537045ddbcaed4c68eef074462eb12d324d7953f62c5ecd35df645e8aec9
  KN snakeyaml 2.5 e6682acf1ace77508ef13649cbf4f8d09d2cf5457bdb61d25ffb6ac0233d78dd
"""


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned artifact of Maven Central."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""
    extension: str = "jar"

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}{self.classifier and '-' + self.classifier}.{self.extension}"

    @property
    def coordinates(self) -> str:
        plain = f"{self.group}:{self.artifact}:{self.version}{self.classifier and ':' + self.classifier}"
        return plain if self.extension == "jar" else f"{plain}@{self.extension}"


@cache
def pinned(jar_set: str) -> tuple[Jar, ...]:
    """The jars of one set, in the order of their coordinates. Errors: ValueError names the known sets."""
    letter = SETS.get(jar_set)
    if letter is None:
        raise ValueError(f"no jar set {jar_set!r}: the sets are {', '.join(SETS)}")
    jars: list[Jar] = []
    group = ""
    for line in _PINNED.strip().splitlines():
        if not line.startswith(" "):
            group = line
            continue
        letters, artifact, named, sha256 = line.split()
        if letter in letters:
            coordinates, _, extension = named.partition("@")
            version, _, classifier = coordinates.partition(":")
            jars.append(Jar(group, artifact, version, sha256, classifier, extension or "jar"))
    return tuple(jars)
