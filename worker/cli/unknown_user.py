"""A user without an entry in passwd, as some clusters give to containers: Hadoop's classes in Spark need a name.

Decided: `libnss_wrapper` gives the name to this process and its children, because /etc/passwd of a read-only image
cannot be written; loses: `connect-mirror-maker`, which is not started by `headrace worker`.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from headrace.worker.machine import nss_wrapper


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
    preloading = nss_wrapper.preloading()
    if not preloading:
        raise UnknownUser(
            f"user {user} has no entry in /etc/passwd, and Spark's driver does not start without: run as a user that "
            f"has one, add one, or install {nss_wrapper.LIBRARY} (Debian: {nss_wrapper.PACKAGE})"
        )
    entry = f"headrace:x:{user}:{os.getgid()}::{os.environ.get('HOME', '/')}:/usr/sbin/nologin\n"
    passwd = folder / "passwd"
    passwd.write_text(_text("/etc/passwd") + entry, encoding="utf-8")
    group = folder / "group"
    group.write_text(_text("/etc/group"), encoding="utf-8")
    return {**preloading, "NSS_WRAPPER_PASSWD": str(passwd), "NSS_WRAPPER_GROUP": str(group)}


def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8") if Path(file).exists() else ""
