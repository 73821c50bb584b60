"""Writes what the image is made of (CycloneDX 1.6, JSON) and the licences of it all.

python bill.py SITE_PACKAGES... --output FOLDER [--java FOLDER] [--cache FOLDER] [--debian FOLDER]

Python's packages come from their metadata, jars from the Maven coordinates in them and, where a jar has none, from its
name. Debian's packages come from dpkg's folder: that of the image, which need not be the one where this runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

Component = dict[str, Any]
_LICENCE_FILE: Final = re.compile(r"(LICEN[CS]E|NOTICE|COPYING)[^/]*", re.I)
_JAR_NAME: Final = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.-]*)\.jar")
_IN_JAR: Final = re.compile(r"META-INF/maven/[^/]+/(?P<artifact>[^/]+)/pom\.properties")
_GROUPS: Final = {
    "RoaringBitmap": "org.roaringbitmap",
    "arpack_combined_all": "net.sourceforge.f2j",
    "hadoop-client-runtime": "org.apache.hadoop",
    "ivy": "org.apache.ivy",
    "jackson-module-scala_": "com.fasterxml.jackson.module",
    "json4s-": "io.github.json4s",
    "jsr305": "com.google.code.findbugs",
    "jta": "javax.transaction",
    "chill": "com.twitter",
    "libfb303": "org.apache.thrift",
    "libthrift": "org.apache.thrift",
    "objenesis": "org.objenesis",
    "oro": "oro",
    "snappy-java": "org.xerial.snappy",
    "stax-api": "stax",
    "tink": "com.google.crypto.tink",
    "transaction-api": "javax.transaction",
    "xz": "org.tukaani",
    "zstd-jni": "com.github.luben",
    "scala-": "org.scala-lang",
    "scala-parser-combinators_": "org.scala-lang.modules",
    "scala-parallel-collections_": "org.scala-lang.modules",
    "scala-xml_": "org.scala-lang.modules",
}
"""Groups of Spark's jars that do not name their own, by the beginning of their names; the longest counts."""
_SPDX: Final = re.compile(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*")


def main(arguments: Sequence[str]) -> None:
    """Write `bom.json` and the folder `licenses`."""
    parser = argparse.ArgumentParser(description="Writes what an image is made of.")
    parser.add_argument("sites", nargs="*", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--java", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--debian", type=Path, default=Path("/var/lib/dpkg"))
    asked = parser.parse_args(arguments)
    sys.path += map(str, asked.sites)
    licences = asked.output / "licenses"
    licences.mkdir(parents=True, exist_ok=True)
    components = list(_python(distributions(), licences))
    installed = next(Path(place) for place in sys.path if Path(place, "pyspark", "jars").is_dir())
    jars = [installed / "pyspark" / "jars", *([asked.cache / "jars"] if asked.cache else [])]
    components += _jars(jars, licences)
    components += [*_debian(asked.debian), *(_java(asked.java, licences) if asked.java else [])]
    bom = _bom(sorted(components, key=lambda one: str(one["bom-ref"])))
    (asked.output / "bom.json").write_text(json.dumps(bom, indent=1) + "\n", encoding="utf-8")
    print(f"bill: {len(bom['components'])} components")


def _bom(components: Sequence[Component]) -> dict[str, Any]:
    """The document; its number depends on what it lists alone, so that the same image has the same."""
    unique = list({one["bom-ref"]: one for one in components}.values())
    own = next(one for one in unique if one["name"] == "headrace" and one["purl"].startswith("pkg:pypi/"))
    digest = hashlib.sha256(json.dumps(unique).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32], version=5)}",
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": [one for one in unique if one is not own],
    }


def _component(purl: str, name: str, version: str, licences: Sequence[str] = (), **more: Any) -> Component:
    found: Component = {"type": "library", "bom-ref": purl, "purl": purl, "name": name, "version": version, **more}
    if licences:
        is_expression = len(licences) == 1 and _SPDX.fullmatch(licences[0])
        names = [{"license": {"name": one}} for one in licences]
        found["licenses"] = [{"expression": licences[0]}] if is_expression else names
    return found


def _python(installed: Iterable[Distribution], licences: Path) -> Iterator[Component]:
    for one in installed:
        name, version = str(one.metadata["Name"]), one.version
        purl = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{quote(version)}"
        yield _component(purl, name, version, _python_licences(one))
        for file in one.files or ():
            if (
                _LICENCE_FILE.fullmatch(file.name)
                and ".dist-info" in str(file)
                and Path(one.locate_file(file)).is_file()
            ):
                _keep(licences / f"{name}-{version}", file.name, Path(one.locate_file(file)).read_bytes())


def _python_licences(one: Distribution) -> list[str]:
    expression = one.metadata.get("License-Expression")
    if expression:
        return [str(expression)]
    classifiers = [str(line) for line in one.metadata.get_all("Classifier") or ()]
    named = [line.split(" :: ")[-1] for line in classifiers if line.startswith("License :: ")]
    text = str(one.metadata.get("License") or "").strip()
    return named or ([text] if text and "\n" not in text else [])


def _jars(folders: Sequence[Path], licences: Path) -> Iterator[Component]:
    for jar in sorted(path for folder in folders for path in folder.glob("*.jar")):
        digest = hashlib.sha256(jar.read_bytes()).hexdigest()
        with zipfile.ZipFile(jar) as archive:
            group, name, version = _coordinates(jar, archive)
            for entry in archive.namelist():
                if entry.count("/") < 2 and _LICENCE_FILE.fullmatch(entry.rpartition("/")[2]):
                    _keep(licences / jar.stem, entry.rpartition("/")[2], archive.read(entry))
        space = f"{quote(group)}/" if group else ""
        purl = f"pkg:maven/{space}{quote(name)}@{quote(version)}"
        hashes = [{"alg": "SHA-256", "content": digest}]
        yield _component(purl, name, version, **({"group": group} if group else {}), hashes=hashes)


def _coordinates(jar: Path, archive: zipfile.ZipFile) -> tuple[str, str, str]:
    """Group, artifact and version: as pinned, as the jar itself says, or by its name."""
    from headrace.config.jars import SETS, pinned

    if jar.name.startswith("headrace-"):
        name, _, digest = jar.stem.rpartition("-")
        return "headrace", name, digest
    if one := next((one for jar_set in SETS for one in pinned(jar_set) if one.file_name == jar.name), None):
        return one.group, one.artifact, one.version
    matched = [found for entry in archive.namelist() if (found := _IN_JAR.fullmatch(entry))]
    said = [one for one in matched if jar.name.startswith(f"{one['artifact']}-")]
    if said:
        best = max(said, key=lambda one: len(one["artifact"]))
        lines = archive.read(best.string).decode("utf-8", "replace").splitlines()
        props = dict(line.split("=", 1) for line in map(str.strip, lines) if "=" in line)
        return props.get("groupId", ""), props.get("artifactId", best["artifact"]), props.get("version", "0")
    named = _JAR_NAME.fullmatch(jar.name)
    name, version = (named["name"], named["version"]) if named else (jar.stem, "0")
    group = max((one for one in _GROUPS if name.startswith(one)), key=len, default="")
    return _GROUPS.get(group, ""), name, version


def _debian(folder: Path) -> Iterator[Component]:
    if shutil.which("dpkg-query") is None:
        return
    shown = ["dpkg-query", f"--admindir={folder}", "-W", "-f", "${Package}\t${Version}\t${Architecture}\n"]
    for line in subprocess.run(shown, capture_output=True, text=True, check=True).stdout.splitlines():
        name, version, architecture = line.split("\t")
        purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}"
        yield _component(purl, name, version)


def _java(folder: Path, licences: Path) -> Iterator[Component]:
    lines = (folder / "release").read_text(encoding="utf-8").splitlines()
    version = dict(line.split("=", 1) for line in lines if "=" in line)["JAVA_VERSION"].strip('"')
    yield _component(
        f"pkg:generic/openjdk@{version}", "openjdk", version, ["GPL-2.0-only WITH Classpath-exception-2.0"]
    )
    for file in sorted((folder / "legal").glob("java.base/*")):
        _keep(licences / f"openjdk-{version}", file.name, file.read_bytes())


def _keep(folder: Path, name: str, text: bytes) -> None:
    """Keep a licence; another one of the same name gets a number."""
    folder.mkdir(parents=True, exist_ok=True)
    file, number = folder / name, 1
    while file.exists() and file.read_bytes() != text:
        file, number = folder / f"{name}.{number}", number + 1
    file.write_bytes(text)


if __name__ == "__main__":
    main(sys.argv[1:])
