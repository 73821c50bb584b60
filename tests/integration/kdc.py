"""A real Kerberos server for tests, MIT's by Debian package: a process on a free loopback port."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.worker.machine import processes
from tests.held_ports import held_port
from tests.integration.debian_packages import installed, program_path
from tests.integration.hdfs_server import Node, run

REALM = "HEADRACE.TEST"

_PACKAGES = ("krb5-kdc", "krb5-admin-server", "krb5-user")
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


class Kdc(Node):
    """One Kerberos server; its port and principals stay the same over restarts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._port = held_port()
        self.conf = folder / "krb5.conf"
        """For Java's property `java.security.krb5.conf`."""
        self._keytabs = folder
        self.ticket_cache = folder / "tickets"
        self._write_conf()
        settings = {"KRB5_CONFIG": self.conf, "KRB5_KDC_PROFILE": folder / "kdc.conf", "KRB5CCNAME": self.ticket_cache}
        self.env = {**os.environ, **{name: str(path) for name, path in settings.items()}}
        """In which programs know it."""
        super().__init__([installed(_PROGRAMS, _PACKAGES), "-n"], folder, "kdc", self._listens, self.env)

    def create(self) -> None:
        """Make its database."""
        run([program_path("kdb5_util"), "create", "-s", "-P", "master", "-r", REALM], self._keytabs, self.env)

    def add(self, name: str, *options: str) -> Path:
        """Add a principal; its keytab. `options` are those of kadmin's `addprinc`."""
        self._admin("addprinc", "-randkey", *options, name)
        return self.keytab(name)

    def keytab(self, name: str) -> Path:
        """A new keytab of a principal, with new keys: its former ones are void."""
        path = self._keytab(name)
        path.unlink(missing_ok=True)
        self._admin("ktadd", "-k", str(path), name)
        return path

    def log_in(self, name: str) -> None:
        """Put a ticket of this principal into the ticket cache."""
        run([program_path("kinit"), "-k", "-t", str(self._keytab(name)), name], self._keytabs, self.env)

    def logins(self, name: str) -> int:
        """The number of logins of this principal."""
        lines = (self._keytabs / "kdc.log").read_text(errors="replace").splitlines()
        return sum("AS_REQ" in line and "ISSUE" in line and f" {name}@" in line for line in lines)

    def _keytab(self, name: str) -> Path:
        return self._keytabs / f"{name.replace('/', '-')}.keytab"

    def _admin(self, *query: str) -> None:
        run([program_path("kadmin.local"), "-r", REALM, *query], self._keytabs, self.env)

    def _listens(self) -> bool:
        return not processes.is_free(self._port)

    def _write_conf(self) -> None:
        folder = self._keytabs
        self.conf.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " rdns = false\n udp_preference_limit = 1\n kdc_timeout = 3000\n max_retries = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self._port}\n }}\n"
            f"[logging]\n kdc = FILE:{folder / 'kdc.log'}\n",
            encoding="ascii",
        )
        (folder / "kdc.conf").write_text(
            f'[kdcdefaults]\n kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{self._port}\n'
            f"[realms]\n {REALM} = {{\n  database_name = {folder / 'principals'}\n"
            f"  key_stash_file = {folder / 'stash'}\n  supported_enctypes = aes256-cts:normal\n }}\n",
            encoding="ascii",
        )
