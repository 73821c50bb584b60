"""The image that the Dockerfile begins with, made from Debian's packages where no registry of images can be asked."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.image.container import buildah

ROOT: Final = Path(__file__).parents[2]
_FROM: Final = re.compile(r"^FROM (python:\S+)", re.MULTILINE)
_PACKAGES: Final = "ca-certificates,python3,python3-pip,python3-venv,python-is-python3"
_AUTHORITIES: Final = Path("usr/local/share/ca-certificates")


def make_base(folder: Path) -> None:
    """The image exists in buildah's storage: Debian 12 with its own Python, and this machine's authorities."""
    found = _FROM.search((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert found
    name = f"docker.io/library/{found[1]}"
    known = subprocess.run(["buildah", "inspect", "--type", "image", name], capture_output=True, check=False)
    if known.returncode == 0:
        return
    root = folder / "root"
    made = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(root)]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, timeout=1800)
    for file in Path("/", _AUTHORITIES).glob("*.crt"):
        shutil.copy(file, root / _AUTHORITIES / file.name)
    subprocess.run(["chroot", root, "update-ca-certificates"], check=True, capture_output=True)
    if Path("/etc/pip.conf").exists():
        shutil.copy("/etc/pip.conf", root / "etc/pip.conf")
    container = buildah("from", "scratch").strip()
    buildah("add", "--quiet", container, str(root), "/")
    buildah("config", "--env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", container)
    buildah("commit", "--quiet", "--rm", container, name)
