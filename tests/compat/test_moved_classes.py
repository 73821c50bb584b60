"""Classes that Kafka 4.4 moved are in a Java host in both places: plugins of 4.3 and older, and of 4.4, find them."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

PROGRAM: Final = """
import sys
import jpype
from headrace.connectors.java.class_path import class_path
jpype.startJVM(classpath=[str(jar) for jar in class_path()])
utils = jpype.JPackage("org").apache.kafka.common.utils
for place in (utils, utils.internals):
    print(place.AppInfoParser.getVersion(), place.Sanitizer.sanitize("a b"), place.LogContext("[x] ").logPrefix())
    print(place.ConfigUtils.configMapToRedactedString(jpype.java.util.HashMap(), jpype.JPackage("org").apache.kafka
        .common.config.ConfigDef()))
"""


@pytest.mark.spark
def test_both_places_have_them() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert said == ["4.3.1 a%20b [x] ", "{}"] * 2
