"""Prints the modules of the installed JDK that the image's JRE has, for jlink: all but the tools for developers."""

from __future__ import annotations

import re
import subprocess
from typing import Final

_TOOLS: Final = re.compile(
    r"jdk\.(compiler|jshell|javadoc|jlink|jpackage|jdeps|jdi|jconsole|jartool|jstatd|jdwp\.agent|editpad|hotspot\.agent|"
    r"internal\.(ed|le|opt|jvmstat|vm\.compiler.*)|rmic)"
)


def main() -> None:
    """Print them, joined by commas."""
    said = subprocess.run(["java", "--list-modules"], capture_output=True, text=True, check=True).stdout
    names = [line.split("@")[0] for line in said.split()]
    print(",".join(name for name in names if not _TOOLS.fullmatch(name)))


if __name__ == "__main__":
    main()
