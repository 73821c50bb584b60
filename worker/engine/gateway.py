"""The JVM of Spark's driver, and the gateway through which Python calls it.

Decided: with a local master the JVM is started by the command, and the main class, that spark-submit would end in,
because spark-submit finds that command in a JVM of its own and prepares what only a cluster or Ivy needs. So the JVM
also begins without Spark's machine learning, whose functions made each session wait 0.7 s. spark-submit still starts it
if it has something to do: on a cluster, with settings that it alone knows, with files in Spark's configuration folder.
Loses: a list of options that Spark keeps for its JVM (`spark_internals`), which a test compares; `pyspark.ml` in Python
transforms with a local master.

Decided: pyspark is imported once the JVM is launched, in this module and in `driver`, because the JVM boots on another
core meanwhile (0.2 s); loses: imports in functions.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from headrace.plugins.interop.jvm.jars import java_command
from headrace.worker.engine.cluster import is_local
from headrace.worker.engine.host_name import host_name
from headrace.worker.engine.spark_internals import (
    address_told,
    connected,
    gateway_main,
    import_pyspark,
    jvm_options,
    submitted,
    telling_address,
)
from headrace.worker.machine.memory_limit import how_ended

_MEMORY: Final = "spark.driver.memory"
_OPTIONS: Final = "spark.driver.extraJavaOptions"
_CLASS_PATH: Final = "spark.driver.extraClassPath"
_MASTER: Final = "spark.master"
_FOR_SUBMIT: Final = (
    *("spark.jars", "spark.submit.", "spark.yarn.", "spark.kubernetes."),
    *("spark.driver.defaultJavaOptions", "spark.driver.extraLibraryPath", "spark.driver.userClassPathFirst"),
)
"""Settings, or their prefixes, that spark-submit acts on."""
_FILES_FOR_SUBMIT: Final = ("spark-env.sh", "spark-defaults.conf", "java-opts")
_VARIABLES_FOR_SUBMIT: Final = ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "PYSPARK_GATEWAY_PORT")
_WITHOUT: Final = "spark-mllib_"
_LOOK_S: Final = 0.005
_OWN_ADDRESS: Final = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}
"""Otherwise Spark asks for the address of the host's name, and does not start where nothing resolves that name."""


def installed_spark() -> Path:
    """The folder of the installed pyspark, found without importing it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pyspark is not installed")
    return Path(found.origin).parent


def opened(conf: Mapping[str, str], folder: Path, output: int) -> Any:
    """Open a gateway to a new JVM; `gateway.proc` is its process, which ends with this one.

    `conf`: the settings that Spark needs at its launch; `folder`: the JVM's current directory; `output`: a descriptor
    for its output. Errors: OSError, and what pyspark raises, if it does not start.
    """
    popen: dict[str, Any] = {"cwd": folder, "start_new_session": True, "stdout": output, "stderr": output}
    if _is_plain(conf):
        return _started(conf, folder, popen)
    import_pyspark()
    with _environment({**own_address(conf), **host_name()}):
        return submitted(conf, popen)


def own_address(conf: Mapping[str, str]) -> dict[str, str]:
    """The variables by which the driver of a local master knows its address; an operator's own stay."""
    if not is_local(conf[_MASTER]) or any(os.environ.get(name) for name in _OWN_ADDRESS):
        return {}
    return dict(_OWN_ADDRESS)


@contextlib.contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """Have these variables in the environment, from which pyspark takes that of spark-submit."""
    before = {name: os.environ[name] for name in more if name in os.environ}
    os.environ.update(more)
    try:
        yield
    finally:
        for name in more:
            os.environ.pop(name, None)
        os.environ.update(before)


def _started(conf: Mapping[str, str], folder: Path, popen: Mapping[str, Any]) -> Any:
    """Start the JVM without spark-submit."""
    with tempfile.TemporaryDirectory(prefix="gateway-", dir=folder) as scratch:
        said = Path(scratch, "address")
        env = {**os.environ, **own_address(conf), **host_name(), **telling_address(said)}
        process = subprocess.Popen([*command(conf), gateway_main()], stdin=subprocess.PIPE, env=env, **popen)
        try:
            import_pyspark()  # while the JVM starts
            port, secret = _address(process, said)
            gateway = connected(port, secret)
        except BaseException:
            _end(process)
            raise
    gateway.proc = process
    return gateway


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def command(conf: Mapping[str, str]) -> list[str]:
    """The command of the driver's JVM, up to its main class."""
    more = [os.environ.get(name, "") for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")]
    class_path = [conf.get(_CLASS_PATH, ""), str(_conf_dir()), *_jars(), *more]
    options = shlex.split(conf.get(_OPTIONS, ""))
    return [java_command(), "-cp", ":".join(filter(None, class_path)), f"-Xmx{conf[_MEMORY]}", *options, *jvm_options()]


def _jars() -> list[str]:
    """Spark's jars, except that of its machine learning: it adds functions to each session by Scala's reflection."""
    jars = sorted(map(str, Path(os.environ["SPARK_HOME"], "jars").glob("*.jar")))
    return [jar for jar in jars if not Path(jar).name.startswith(_WITHOUT)]


def _is_plain(conf: Mapping[str, str]) -> bool:
    """True if spark-submit has nothing to do but start the JVM."""
    return (
        is_local(conf[_MASTER])
        and not any(key.startswith(_FOR_SUBMIT) for key in conf)
        and not any(Path(_conf_dir(), name).exists() for name in _FILES_FOR_SUBMIT)
        and not any(os.environ.get(name) for name in _VARIABLES_FOR_SUBMIT)
    )


def _conf_dir() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(os.environ["SPARK_HOME"], "conf"))


def _address(process: subprocess.Popen[bytes], said: Path) -> tuple[int, str]:
    """Wait for the gateway's port and secret. Errors: OSError if the JVM ends instead."""
    while not said.exists():
        if process.poll() is not None:
            raise OSError(f"the JVM of Spark's driver {how_ended(process.returncode)}; the log has what it printed")
        time.sleep(_LOOK_S)
    return address_told(said.read_bytes())
