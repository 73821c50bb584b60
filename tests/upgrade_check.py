"""Runs the tests that meet other people's private names with the newest of their packages: `make upgrade-check`.

    python -m tests.upgrade_check                                    # all of `PACKAGES`, and Kafka's jars
    python -m tests.upgrade_check pyspark==4.3.0 -- tests/spark -x   # this one only, and these arguments of pytest

A copy of this checkout, and an environment over that of this Python, stand in the cache. In the copy Kafka's jars are
pinned to the newest that Maven Central has. It prints what was tried, and pytest what breaks.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headrace.config.jars import KAFKA_VERSION, Jar, pinned
from headrace.plugins.interop.jvm import jars

ROOT: Final = Path(__file__).parents[1]
HOME: Final = jars.cache_dir() / "upgrade-check"
PACKAGES: Final = ("pyspark", "confluent-kafka", "kafka-python", "jpype1")
TESTS: Final = (
    *(
        "tests/unit/worker/engine",
        "tests/unit/worker/group",
        "tests/unit/worker/kafka",
        "tests/unit/plugins/interop/kafka",
    ),
    *("tests/unit/connectors/java", "tests/unit/connectors/mirror", "tests/spark"),
    *("tests/integration/test_group.py", "tests/integration/test_mirror_topics.py"),
    *("tests/integration/test_java_sources.py", "tests/integration/test_java_sinks.py"),
    *("tests/integration/test_jdbc_source_reading.py", "tests/integration/test_standalone.py"),
)
"""Tests that meet a name of a module that `tests/unit/test_private_names.py` lists."""


def main(arguments: Sequence[str]) -> int:
    """Make the environment and run the tests in it; pytest's answer."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    packages, options = arguments[:end], arguments[end + 1 :]
    tree = copied(HOME / "tree")
    if not packages:
        print(f"Kafka's jars: {upgraded(tree / 'config' / 'jars.py')}")
    python = environment(HOME / "venv", tree, packages or PACKAGES)
    listed = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
    print("\n".join(line for line in listed.splitlines() if line.split()[0].lower() in PACKAGES))
    command = [python, "-m", "pytest", *(options or ("-n", "3", "--dist", "loadfile", *TESTS))]
    return subprocess.run(command, cwd=tree, check=False).returncode


def copied(tree: Path) -> Path:
    """A copy of what git knows of this checkout, and of what is new in it."""
    shutil.rmtree(tree, ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    return tree


def environment(folder: Path, tree: Path, packages: Sequence[str]) -> Path:
    """The Python of a new environment that has these packages, this copy, and whatever this Python has."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    own = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    Path(own, "beneath.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    # pip warns that the copy wants other versions, which is what is tried.
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "-e", tree], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "--upgrade", *packages], check=True)
    return python


def upgraded(pins: Path) -> str:
    """The version of the newest jars of Kafka, to which these pins are changed; they are in the cache then."""
    wanted = {jar.artifact: jar for name in ("kafka", "java") for jar in pinned(name) if _is_kafkas(jar)}
    found = _fetched(list(wanted.values()))
    if found.keys() != wanted.keys():
        return f"{KAFKA_VERSION}, because Maven Central gave no newer {', '.join(sorted(wanted.keys() - found.keys()))}"
    text, version = pins.read_text(encoding="utf-8"), KAFKA_VERSION
    for artifact, file in found.items():
        version = file.stem.removeprefix(f"{artifact}-")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        text = re.sub(rf"( {re.escape(artifact)}) {re.escape(KAFKA_VERSION)} \w+", rf"\1 {version} {digest}", text)
        shutil.move(file, jars.cache_dir() / "jars" / file.name)
    pins.write_text(text, encoding="utf-8")
    return version


def _is_kafkas(jar: Jar) -> bool:
    return jar.group == "org.apache.kafka" and jar.version == KAFKA_VERSION


def _fetched(wanted: Sequence[Jar]) -> dict[str, Path]:
    """The newest jar of each, if it is newer, as Ivy has it in its cache."""
    folder = HOME / "ivy"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    dependencies = "\n".join(
        f'<dependency org="{jar.group}" name="{jar.artifact}" rev="]{KAFKA_VERSION},)" transitive="false"/>'
        for jar in wanted
    )
    module = (
        '<ivy-module version="2.0"><info organisation="headrace" module="newest"/><configurations>'
        f'<conf name="default"/></configurations><dependencies defaultconf="default->default">{dependencies}'
        "</dependencies></ivy-module>"
    )
    subprocess.run(jars.ivy_command(folder, jars.SETTINGS, module), stdout=subprocess.DEVNULL, check=False)
    return {jar.artifact: found for jar in wanted for found in folder.glob(f"{jar.group}/{jar.artifact}/jars/*.jar")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
