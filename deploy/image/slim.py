"""Removes from an installed environment what no worker loads: half of the image.

python slim.py [GROUP...]: the groups of Spark's parts to keep, such as `kubernetes`.

Decided: a list of what goes, not of what stays, because a jar or module that a newer release brings is then kept;
loses: a release that brings a large one is not noticed.

Decided: native libraries are stripped of the names that only a debugger asks for, because those were a twentieth of
the image; loses: names in a native stack trace.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

SPARK_GROUPS: Final = {
    # Executors as pods, and YARN's containers: a driver with a master of that kind.
    "kubernetes": r"kubernetes-|spark-kubernetes|vertx-|volcano-|zjsonpatch",
    "yarn": r"spark-yarn",
    # pyspark.ml, which a driver on the worker's cores leaves out at any rate (worker/engine/gateway.py).
    "ml": r"spark-mllib|spark-graphx|breeze|spire|algebra_|cats-kernel|JTransforms|JLargeArrays|arpack|blas-|lapack-|"
    r"jaxb-runtime|jaxb-core|istack-",
    # State of Spark's streaming queries, and clients over gRPC: Headrace runs neither.
    "state": r"rocksdbjni",
    "connect": r"spark-connect|spark-pipelines|connect-repl$",
    # Spark's SQL server and a metastore of its own. Hive's client stays, for catalogs of Iceberg.
    "hive-server": r"spark-hive-thriftserver|hive-(beeline|cli|jdbc|service-rpc)|derby|datanucleus|jdo-api|javax.jdo|"
    r"HikariCP|super-csv|jpam",
    "shell": r"spark-repl|scala-compiler|jline|scala-parallel-collections",
}
"""Spark's jars that are not in the image, by what they are for."""
_SPARK_PACKAGES: Final = {"ml": ("ml", "mllib"), "connect": ("sql/connect", "pipelines")}
"""Packages of pyspark that do nothing without the jars of their group."""
_OTHER_MACHINES: Final = r"-(osx|windows)-|kqueue-\d.*-osx|linux-riscv64"
_MACHINES: Final = {"x86_64": "linux-aarch_64", "aarch64": "linux-x86_64"}

_PACKAGES: Final = (
    *("pandas/tests", "numpy/tests", "numpy/*/tests", "numpy/f2py", "pyarrow/tests", "pyarrow/include"),
    *("pyarrow/src", "pyarrow/includes", "sqlalchemy/testing", "psutil/tests", "crc32c/tests"),
    *("pyspark/examples", "pyspark/data", "pyspark/sbin", "pyspark/tests", "pyspark/*/tests"),
    *("pyspark/sql/tests", "pyspark/python/test_support", "pyspark/python/dist", "pyspark/R"),
    # The same library under the names that only compilers look for.
    *("pyarrow/libarrow_python*.so", "pyarrow/libarrow_python*.so.*.*"),
    # Only what the Protobuf compiler can write for servers imports it; pip installs it again for a plugin that does.
    *("grpc", "grpcio-*"),
    # Flight is a server of tables, setuptools builds packages.
    *("pyarrow/*flight*", "setuptools", "setuptools-*", "pkg_resources", "_distutils_hack", "distutils-precedence.pth"),
)
_SERVICES: Final = ("s3", "sts", "sso", "sso-oidc", "signin", "glue")
"""Of botocore's descriptions of services, those of stores and of logins."""


def main(keep: Sequence[str]) -> None:
    """Remove it all; ValueError for a group that does not exist."""
    if unknown := set(keep) - set(SPARK_GROUPS):
        raise ValueError(f"no group of Spark's jars: {', '.join(sorted(unknown))}; there are {', '.join(SPARK_GROUPS)}")
    site = Path(sysconfig.get_path("purelib"))
    removed = 0
    for path in _unwanted(site, keep):
        removed += _size(path)
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    print(f"slim: {removed / 1e6:.0f} MB removed, {_strip(site) / 1e6:.0f} MB stripped")


def _unwanted(site: Path, keep: Sequence[str]) -> list[Path]:
    jars, packages = _spark_jars(site / "pyspark" / "jars", keep), _spark_packages(site, keep)
    # A file may match two patterns.
    return list(dict.fromkeys([*jars, *packages, *_modules(site), *_services(site)]))


def _spark_jars(folder: Path, keep: Sequence[str]) -> Iterator[Path]:
    patterns = [pattern for group, pattern in SPARK_GROUPS.items() if group not in keep]
    patterns += [_OTHER_MACHINES, _MACHINES.get(os.uname().machine, "^$")]
    unwanted = re.compile("|".join(rf"(?:{one})" for one in patterns))
    yield from (path for path in sorted(folder.iterdir()) if unwanted.search(path.name))


def _spark_packages(site: Path, keep: Sequence[str]) -> Iterator[Path]:
    for group, names in _SPARK_PACKAGES.items():
        yield from (site / "pyspark" / name for name in names if group not in keep)


def _modules(site: Path) -> Iterator[Path]:
    for pattern in _PACKAGES:
        yield from sorted(site.glob(pattern))


def _services(site: Path) -> Iterator[Path]:
    for path in sorted((site / "botocore" / "data").iterdir()):
        if path.is_dir() and path.name not in _SERVICES:
            yield path


def _strip(site: Path) -> int:
    """Strip the native libraries; the bytes that are gone.

    Not those in folders like `numpy.libs`: they were moved there with changed headers, and strip breaks some of them.
    """
    found = sorted(path for path in site.rglob("*.so*") if path.is_file() and not path.is_symlink())
    libraries = [path for path in found if not path.parent.name.endswith(".libs")]
    before = sum(map(_size, libraries))
    subprocess.run(["strip", "--strip-unneeded", "--preserve-dates", *libraries], check=True)
    return before - sum(map(_size, libraries))


def _size(path: Path) -> int:
    return sum(one.lstat().st_size for one in ([path, *path.rglob("*")] if path.is_dir() else [path]))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        sys.exit(f"slim: {error}")
