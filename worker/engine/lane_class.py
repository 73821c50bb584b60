"""The class of lanes in the driver's JVM (`lane.java`), made as soon as the JVM runs.

It stands by itself because a JVM may run before the worker's other modules are imported (`process.commands`).
"""

from __future__ import annotations

import threading
import weakref
from pathlib import Path
from typing import Any, Final

_SOURCE: Final = Path(__file__).with_name("lane.java")
_classes: Final[weakref.WeakKeyDictionary[Any, Any]] = weakref.WeakKeyDictionary()
_making: Final = threading.Lock()


def java_class(jvm: Any) -> Any:
    """The class of `lane.java`, made once for a JVM: py4j mixes up the methods of classes with the same name.

    It is first asked for on another core while a new JVM's session begins.
    """
    with _making:
        if jvm not in _classes:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
            compiler.cook(_SOURCE.read_text())
            _classes[jvm] = compiler.getClassLoader().loadClass("headrace.Lane")
        return _classes[jvm]
