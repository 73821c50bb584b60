"""Spark's driver on a host whose name nothing resolves, as in a container without network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

_START = """
import socket, sys
from headrace.worker.engine.driver import Spark
try:
    sys.exit(f"{socket.gethostname()} is resolved: {socket.gethostbyname(socket.gethostname())}")
except socket.gaierror:
    pass
spark = Spark({**dict(pair.split("=") for pair in sys.argv[1:])}, [])
spark.start()
try:
    assert spark.wait_ready(180), "it does not start"
    assert spark.session().range(3).rdd.map(lambda row: row.id).sum() == 3
finally:
    spark.stop()
"""


@pytest.mark.parametrize("more", ["spark.ui.enabled=false", "spark.submit.pyFiles="], ids=["plain", "by spark-submit"])
def test_it_starts(more: str, tmp_path: Path) -> None:
    unshare = [shutil.which("unshare") or "unshare", "--uts", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    named = [*unshare, "sh", "-c", 'hostname no-such-host.invalid && exec "$@"', "sh"]
    if subprocess.run([*named, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not give a process a host name of its own")
    env = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_LOCAL_")}
    done = subprocess.run(
        [*named, sys.executable, "-c", _START, more],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
