"""The options of the commands that ask a worker, and what they say together: the way to it, and the login."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer

LOCAL: Final = "http://127.0.0.1:8083"

Rest = Annotated[str, typer.Option(metavar="URL", help="A worker; any of a cluster.")]
User = Annotated[
    str | None, typer.Option(metavar="NAME:PASSWORD", envvar="HEADRACE_USER", help="The login at the worker.")
]
Token = Annotated[str | None, typer.Option(envvar="HEADRACE_TOKEN", help="A bearer token for the worker.")]
CaCert = Annotated[Path | None, typer.Option(metavar="FILE", help="PEM certificates to trust if --rest is https.")]
Cert = Annotated[Path | None, typer.Option(metavar="FILE", help="The client's certificate and key, in PEM.")]


@dataclass(frozen=True)
class Login:
    """The way to a worker; what is None is not sent."""

    rest: str = field(default=LOCAL, repr=False)
    """The URL, which may have a login."""
    user: str | None = field(default=None, repr=False)
    """`name:password`."""
    token: str | None = field(default=None, repr=False)
    cacert: Path | None = None
    cert: Path | None = None
    """The client's certificate and its key, in PEM."""
