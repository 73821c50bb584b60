"""A real stand-alone Spark cluster: a master and two workers as processes, from the jars that pyspark carries.

Executors run a Python of their own (`Elsewhere`), in which Headrace is not installed and packages may be missing, as on
the host of somebody else. RPC is authenticated and encrypted.
"""

from __future__ import annotations

import contextlib
import os
import site
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
import psutil
import pyspark

from headrace.worker.engine.driver_conf import DEFAULTS
from headrace.worker.machine import processes
from tests.held_ports import held_port
from tests.short_jvms import ONLY_C1

SECRET = "known-to-the-cluster-alone"
_HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
_START_S = 180.0
_MARK = "HEADRACE_TEST_CLUSTER"
_SECURITY = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": SECRET,
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}


def python_elsewhere(folder: Path, lacking: Sequence[str] = ()) -> Path:
    """An environment with the packages of this one, but without Headrace and those that `lacking` begins with."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    for place in map(Path, site.getsitepackages()):
        for entry in place.iterdir() if place.is_dir() else ():
            unwanted = ("headrace", "_editable_impl_headrace", "__", *lacking)
            if not entry.name.startswith(unwanted) and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    (folder / "bin").mkdir()
    python = folder / "bin" / "python"
    python.symlink_to(base)
    found = subprocess.run([python, "-c", "import headrace"], capture_output=True, text=True, cwd=folder, check=False)
    assert "No module named 'headrace'" in found.stderr, found.stderr
    return python


class SparkCluster:
    """The cluster; as a context manager nothing of it is left at the end."""

    def __init__(self, folder: Path, python: Path, workers: int = 2, cores: int = 2) -> None:
        """`cores`: of each worker."""
        self.folder = folder
        self.python = python
        self.port, self._web_port, self._ui_port = (held_port() for _ in range(3))
        self.events = folder / "events"
        self._workers, self._cores = workers, cores
        self._mark = uuid.uuid4().hex
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        """For `spark.master`."""
        return f"spark://127.0.0.1:{self.port}"

    @property
    def ui(self) -> str:
        """The REST API of a worker's Spark UI."""
        return f"http://127.0.0.1:{self._ui_port}/api/v1/applications"

    def settings(self, executors: int = 2) -> dict[str, str]:
        """The settings of a Headrace worker."""
        return {
            "spark.master": self.url,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.pyspark.python": str(self.python),
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": f"{DEFAULTS['spark.executor.extraJavaOptions']} {ONLY_C1}",
            "spark.cores.max": str(executors),
            "spark.ui.enabled": "true",
            "spark.ui.port": str(self._ui_port),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.eventLog.compress": "false",
            **_SECURITY,
        }

    def __enter__(self) -> Self:
        self.events.mkdir(parents=True)
        self.start_master()
        for number in range(self._workers):
            self._start(f"worker-{number}", f"{_DEPLOY}.worker.Worker", self._worker_arguments(number))
        self._wait(lambda: self.state().get("aliveworkers") == self._workers)
        return self

    def __exit__(self, *_: object) -> None:
        while found := self._family():
            for one in found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            psutil.wait_procs(found, timeout=60)

    def start_master(self) -> None:
        """The master answers."""
        arguments = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self._web_port)]
        self._start("master", f"{_DEPLOY}.master.Master", arguments)
        self._wait(lambda: self.state().get("status") == "ALIVE")

    def kill_master(self) -> None:
        """It is gone as by `kill -9`, with all it knew."""
        processes.kill(self._processes["master"])

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs."""
        return [one for one in self._family() if any("CoarseGrainedExecutorBackend" in part for part in _line(one))]

    def state(self) -> dict[str, Any]:
        """The master's own account of workers and applications; empty while it does not answer."""
        try:
            answer: dict[str, Any] = httpx.get(f"http://127.0.0.1:{self._web_port}/json/", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return {}
        return answer

    def _worker_arguments(self, number: int) -> list[str]:
        work = self.folder / f"worker-{number}"
        return ["--host", "127.0.0.1", "--cores", str(self._cores), "--memory", "2g", "--work-dir", str(work), self.url]

    def _start(self, name: str, main: str, arguments: Sequence[str]) -> None:
        command = [str(_HOME / "bin" / "spark-class"), main, *arguments]
        self._processes[name] = processes.spawn(
            command, output=self.folder / f"{name}.log", cwd=self.folder, env=self._environment()
        )

    def _environment(self) -> Mapping[str, str]:
        options = " ".join([ONLY_C1, *(f"-D{key}={value}" for key, value in _SECURITY.items())])
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
        return {
            **kept,
            "SPARK_HOME": str(_HOME),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": options,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "TMPDIR": str(self.folder),
            _MARK: self._mark,
        }

    def _wait(self, condition: Any) -> None:
        deadline = time.monotonic() + _START_S
        while not condition():
            assert all(one.poll() is None for one in self._processes.values()), self.logs()
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.1)

    def logs(self) -> str:
        """The ends of all logs, also of executors."""
        files = [*self.folder.glob("*.log"), *self.folder.glob("worker-*/app-*/*/stderr")]
        return "\n".join(f"--- {file}:\n{file.read_text(errors='replace')[-2000:]}" for file in files)

    def _family(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) == self._mark:
                    found.append(process)
        return found


def _line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
