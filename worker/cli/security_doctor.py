"""`headrace doctor --worker FILE`: the gaps in a worker's security, and certificates that end soon.

`access_doctor` looks at rights and the audit log.
"""

from __future__ import annotations

import datetime
import ipaddress
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from headrace.config.key_stores import KeyStoreError, StoreFormat, identity, pem, store_format, trusted
from headrace.config.problems import ConfigError
from headrace.config.properties import read_properties
from headrace.config.values import looks_secret
from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS, AllowedHosts, named_hosts
from headrace.config.worker.listeners import Listener, parse_listener
from headrace.config.worker.login_settings import PRINCIPAL_SECRET
from headrace.config.worker.overrides import OverridePolicy
from headrace.config.worker.rest_tls import HTTPS_PREFIXES
from headrace.config.worker.settings import DISTRIBUTED, STANDALONE
from headrace.worker.cli.doctor import ReportLine, Verdict
from headrace.worker.herder.plugins import variables_of

_SOON: Final = datetime.timedelta(days=30)
_LOGINS: Final = (
    "rest.extension.classes",
    "rest.basic.auth.users.file",
    "rest.bearer.jwks.endpoint.url",
    "rest.client.certificate.login",
)
_CLIENTS: Final = ("", "producer.", "consumer.", "admin.")
_STORE_PREFIXES: Final = ("", *HTTPS_PREFIXES, *_CLIENTS[1:])
_PLAIN: Final = ("PLAINTEXT", "SASL_PLAINTEXT")


def examine(worker_file: Path) -> Iterator[ReportLine]:
    """Check the security settings in these properties."""
    try:
        given = read_properties(worker_file)
        props = variables_of(given).resolve(given)
        yield from _Worker(worker_file, given, props).checks()
    except ConfigError as error:
        yield ReportLine("worker", Verdict.FAIL, str(error))


@dataclass(frozen=True)
class _Worker:
    """A worker's properties: as they are in its file, and with the values of variables."""

    file: Path
    given: Mapping[str, str]
    props: Mapping[str, str]

    def checks(self) -> Iterator[ReportLine]:
        yield from self._listeners()
        yield self._login()
        yield from self._forwarded()
        yield self._answers()
        yield from self._readable()
        yield from self._kafka()
        yield self._hosts()
        yield self._overrides()
        yield from self._certificates()

    def _listeners(self) -> Iterator[ReportLine]:
        found = [parse_listener(one) for one in self._value("listeners") or ()]
        plain = [one for one in found if one.scheme == "http" and not _is_local(one)]
        if plain:
            text = f"{', '.join(map(str, plain))} has no TLS: who can read the network reads configs and logins"
            advice = "set listeners=https://... and listeners.https.ssl.keystore.location, or listen on 127.0.0.1"
            yield ReportLine("listeners", Verdict.WARN, text, advice)
        else:
            yield ReportLine("listeners", Verdict.OK, ", ".join(map(str, found)))
        if self._value("admin.listeners") is None:
            text = "/admin answers where the REST API does"
            advice = "set admin.listeners to an address of its own, or empty to switch it off"
            yield ReportLine("admin.listeners", Verdict.WARN, text, advice)
        else:
            yield ReportLine("admin.listeners", Verdict.OK, self.props["admin.listeners"] or "switched off")

    def _login(self) -> ReportLine:
        found = [key for key in _LOGINS if self.props.get(key, "").strip().lower() not in ("", "false")]
        if found:
            return ReportLine("login", Verdict.OK, ", ".join(found))
        text = "who may reach the REST API needs none"
        return ReportLine(
            "login", Verdict.WARN, text, f"set one of {', '.join(_LOGINS[1:])}; `headrace secure init` does"
        )

    def _forwarded(self) -> Iterator[ReportLine]:
        if "group.id" not in self.props:
            return
        if self._value(PRINCIPAL_SECRET) is not None:
            yield ReportLine(PRINCIPAL_SECRET, Verdict.OK, "workers prove by it who asked")
        else:
            text = "who may read the config topic can ask this worker in anybody's name"
            yield ReportLine(PRINCIPAL_SECRET, Verdict.WARN, text, f"set {PRINCIPAL_SECRET} to the same on all workers")

    def _overrides(self) -> ReportLine:
        name = "connector.client.config.override.policy"
        policy = OverridePolicy.of(self._value(name), ())
        if policy.name != "All":
            return ReportLine(name, Verdict.OK, policy.name)
        text = "connectors may override all settings of their Kafka clients but those that load classes"
        return ReportLine(name, Verdict.WARN, text, f"set {name}=Principal, None or Allowlist")

    def _answers(self) -> ReportLine:
        name = "rest.mask.secrets"
        if self._value(name):
            return ReportLine(name, Verdict.OK, "answers show secrets in configs as [hidden]")
        text = "answers of the REST API show secrets in configs that are no ${variables}"
        return ReportLine(name, Verdict.WARN, text, f"set {name}=true")

    def _readable(self) -> Iterator[ReportLine]:
        """Warn of files with secrets that others on this machine may read."""
        plain = any(looks_secret(key) and "${" not in value for key, value in self.given.items())
        files = [self.file] if plain else []
        files += [Path(self.props[key]) for key in self.props if key.endswith("keystore.location")]
        files += [Path(self.props[key]) for key in ("rest.basic.auth.users.file",) if self.props.get(key)]
        for file in dict.fromkeys(files):
            if file.exists() and file.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
                text = f"everybody on this machine may read {file}, which has secrets"
                yield ReportLine("file mode", Verdict.WARN, text, f"run chmod o-rwx {file}")

    def _kafka(self) -> Iterator[ReportLine]:
        servers = self.props.get("bootstrap.servers", "")
        hosts = [host for _, host in named_hosts({"bootstrap.servers": servers})]
        # Settings without a prefix apply to admin clients only, as in Connect.
        above = self.props.get("security.protocol", "PLAINTEXT").upper()
        protocols = {
            prefix: self.props.get(
                f"{prefix}security.protocol", above if prefix in ("", "admin.") else "PLAINTEXT"
            ).upper()
            for prefix in _CLIENTS
        }
        plain = sorted({one for one in protocols.values() if one in _PLAIN})
        if not plain:
            yield ReportLine("brokers", Verdict.OK, ", ".join(sorted(set(protocols.values()))))
        elif all(map(_is_loopback, hosts)):
            yield ReportLine("brokers", Verdict.OK, f"{', '.join(plain)}, on this machine")
        else:
            text = f"{', '.join(plain)} to {servers}: records and logins are not encrypted"
            advice = "set security.protocol=SASL_SSL or SSL, and the same under producer. and consumer."
            yield ReportLine("brokers", Verdict.WARN, text, advice)

    def _hosts(self) -> ReportLine:
        try:
            allowed = AllowedHosts.of({ALLOWED_HOSTS: self._value(ALLOWED_HOSTS) or ()})
        except ValueError as error:
            return ReportLine(ALLOWED_HOSTS, Verdict.FAIL, str(error), "write patterns of names, and networks")
        if allowed.is_open:
            text = "connectors may name every host that this worker reaches"
            return ReportLine(ALLOWED_HOSTS, Verdict.WARN, text, "name the hosts and networks that are meant for them")
        return ReportLine(ALLOWED_HOSTS, Verdict.OK, str(allowed))

    def _certificates(self) -> Iterator[ReportLine]:
        for prefix in _STORE_PREFIXES:
            for store in ("keystore", "truststore"):
                key = f"{prefix}ssl.{store}.location"
                if self.props.get(key):
                    yield self._store(key, f"{prefix}ssl.", store)
            for inline in ("ssl.keystore.certificate.chain", "ssl.truststore.certificates"):
                if text := self.props.get(prefix + inline):
                    yield _lifetime(prefix + inline, "it", pem(text))

    def _store(self, key: str, prefix: str, store: str) -> ReportLine:
        path, password = Path(self.props[key]), self.props.get(f"{prefix}{store}.password")
        try:
            data = path.read_bytes()
            form = store_format(data)
            if form is None:
                return ReportLine(key, Verdict.FAIL, f"{path} is neither PEM nor PKCS12 nor JKS", "name another store")
            is_bundle = store == "truststore" or form is StoreFormat.PEM
            key_password = self.props.get(f"{prefix}key.password")
            text = trusted(data, password) if is_bundle else identity(data, password, key_password).chain
        except (OSError, KeyStoreError) as error:
            said = error.strerror or error if isinstance(error, OSError) else error
            return ReportLine(key, Verdict.FAIL, f"{path} cannot be read: {said}", f"correct {prefix}{store}.*")
        return _lifetime(key, str(path), text)

    def _value(self, name: str) -> Any:
        settings = DISTRIBUTED if "group.id" in self.props else STANDALONE
        return settings[name].judge(self.props).value


def _lifetime(key: str, where: str, pem_text: str) -> ReportLine:
    """Check the certificate that ends first."""
    try:
        certificates = x509.load_pem_x509_certificates(pem_text.encode())
    except ValueError:
        return ReportLine(key, Verdict.FAIL, f"{where} has no certificate that can be read", "write it anew")
    now = datetime.datetime.now(datetime.UTC)
    first = min(certificates, key=lambda one: one.not_valid_after_utc)
    end, text = first.not_valid_after_utc, f"{first.subject.rfc4514_string()} in {where}"
    if end > now + _SOON:
        return ReportLine(key, Verdict.OK, f"{where}: valid until {end:%Y-%m-%d}")
    if end > now:
        return ReportLine(key, Verdict.WARN, f"{text} ends on {end:%Y-%m-%d}", _RENEW)
    # A trust store may have an authority that nobody uses any more.
    state = Verdict.WARN if "truststore" in key else Verdict.FAIL
    return ReportLine(key, state, f"{text} ended on {end:%Y-%m-%d}", _RENEW)


_RENEW: Final = "renew it; the file may be replaced while the worker runs"


def _is_local(listener: Listener) -> bool:
    return not listener.is_on_all_interfaces and _is_loopback(listener.host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
