"""A user without an entry in passwd, as some clusters give to containers: Hadoop's classes in Spark need a name.

Decided: `libnss_wrapper` gives the name to this process and its children, because /etc/passwd of a read-only image
cannot be written; loses: `connect-mirror-maker`, which is not started by `headrace worker`.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LIBRARY: Final = "libnss_wrapper.so"
_FOLDERS: Final = (Path("/usr/lib"), Path("/usr/lib64"))


class UnknownUser(Exception):
    """The user has no name, and none can be given."""


def naming(folder: Path) -> dict[str, str]:
    """The variables that name this user, with their files in `folder`; none if it has a name. Errors: UnknownUser."""
    user = os.getuid()
    try:
        pwd.getpwuid(user)
    except KeyError:
        pass
    else:
        return {}
    library = next(_libraries(), None)
    if library is None:
        raise UnknownUser(
            f"user {user} has no entry in /etc/passwd, and Spark's driver does not start without: run as a user that "
            f"has one, add one, or install {_LIBRARY} (Debian: libnss-wrapper)"
        )
    entry = f"headrace:x:{user}:{os.getgid()}::{os.environ.get('HOME', '/')}:/usr/sbin/nologin\n"
    passwd = folder / "passwd"
    passwd.write_text(_text("/etc/passwd") + entry, encoding="utf-8")
    group = folder / "group"
    group.write_text(_text("/etc/group"), encoding="utf-8")
    preloaded = " ".join(filter(None, [str(library), os.environ.get("LD_PRELOAD", "")]))
    return {"LD_PRELOAD": preloaded, "NSS_WRAPPER_PASSWD": str(passwd), "NSS_WRAPPER_GROUP": str(group)}


def _libraries() -> Iterator[Path]:
    for folder in _FOLDERS:
        yield from (found for where in ("", "*/") for found in sorted(folder.glob(f"{where}{_LIBRARY}")))


def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8") if Path(file).exists() else ""
