"""The image, built and looked at: `make test-image`, as root, with buildah and debootstrap."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.image.container import Container, can_build

pytestmark = [
    pytest.mark.image,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not can_build(), reason="needs root, buildah, unshare, nsenter and chroot"),
]

MOST_BYTES = 920_000_000
"""Of what Headrace brings; the rest is the base image."""
IMPORTS = """
import importlib, pathlib, pkgutil, sysconfig
import botocore.session, grpc_tools.protoc, headrace, numpy, psycopg, pyarrow.compute, pyarrow.fs, pyspark.testing.utils

KITS = ("headrace.plugins.testkit", "headrace.testkit", "headrace.worker.testing", "headrace.connectors.jdbc.contract")
EXTRAS = (*KITS, "headrace.worker.telemetry.otlp")
site = pathlib.Path(sysconfig.get_path("purelib"))
names = [one.name for one in pkgutil.walk_packages(headrace.__path__, "headrace.")]
names = [one for one in names if not one.startswith(EXTRAS) and "__main__" not in one and ".templates" not in one]
for file in site.rglob("*.so"):
    if "cpython" in file.name or "abi3" in file.name:
        names.append(".".join(file.relative_to(site).with_name(file.name.split(".")[0]).parts))
for name in names:
    importlib.import_module(name)
assert len(names) > 1000
assert (numpy.eye(300) @ numpy.linalg.inv(numpy.eye(300) * 2)).sum() == 150
assert pyarrow.compute.sum(pyarrow.array([1, 2])).as_py() == 3
botocore.session.Session().create_client("s3", "eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
pyarrow.fs.S3FileSystem(region="x", endpoint_override="127.0.0.1:1")
"""


def test_doctor_finds_all_that_a_worker_needs(container: Container) -> None:
    container.run(["headrace", "doctor"])


def test_it_is_small(container: Container) -> None:
    seen: dict[tuple[int, int], int] = {}
    for folder, _, files in os.walk(container.root / "opt/headrace"):
        for file in files:
            state = Path(folder, file).lstat()
            seen[state.st_dev, state.st_ino] = state.st_size
    assert sum(seen.values()) < MOST_BYTES


def test_its_archive_of_classes_is_the_one_that_a_worker_takes(container: Container) -> None:
    code = (
        "from headrace.worker.engine.class_archive import reading\n"
        "from headrace.worker.engine.driver_jars import driver_jars\n"
        "assert reading(driver_jars())\n"
    )
    container.run(["python", "-c", code])


def test_it_says_what_it_is_made_of(container: Container) -> None:
    sbom = container.root / "opt/headrace/sbom"
    purls = {one["purl"].split("@")[0] for one in json.loads((sbom / "bom.json").read_text())["components"]}
    assert {"pkg:pypi/pyspark", "pkg:pypi/pyarrow", "pkg:generic/openjdk"} <= purls
    assert {"pkg:maven/org.apache.spark/spark-core_2.13", "pkg:maven/org.postgresql/postgresql"} <= purls
    assert {"pkg:maven/org.apache.kafka/connect-runtime"} <= purls
    assert any((sbom / "licenses").glob("pyarrow-*/LICENSE*"))
    shown = container.run(["dpkg-query", "-W", "-f", "${Package}\n"]).split()
    assert {"tini", "libnss-wrapper"} <= set(shown)
    assert {one for one in purls if one.startswith("pkg:deb/")} == {f"pkg:deb/debian/{quote(one)}" for one in shown}


def test_nothing_that_a_module_needs_was_removed(container: Container) -> None:
    """All of Headrace is imported but what needs an extra, and all that is compiled; numbers are computed."""
    program = container.shared / "imports.py"
    program.write_text(IMPORTS)
    container.run(["python", "/mnt/imports.py"])
