"""Stores as Java's keytool writes them, and what brokers and clients with TLS and SASL are configured with."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace.config.key_stores import identity
from headrace.plugins.interop.jvm.jars import find_java

USER: Final = "mirror"
SECRET: Final = "open-sesame"
STORE: Final = "changeit"
_KEY: Final = "another-one"
_MODULES: Final = "org.apache.kafka.common.security"
PLAIN: Final = "PLAIN"
SCRAM_256: Final = "SCRAM-SHA-256"
SCRAM_512: Final = "SCRAM-SHA-512"
_SCRAM: Final = {SCRAM_256: ScramMechanism.SCRAM_SHA_256, SCRAM_512: ScramMechanism.SCRAM_SHA_512}


class Stores:
    """One identity of 127.0.0.1, which everyone shows and trusts, in stores of each format."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        own = ["-alias", "me", "-keystore", self._path("key.jks"), "-storepass", STORE]
        who = ["-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1"]
        _keytool("-genkeypair", *own, "-storetype", "JKS", "-keypass", _KEY, "-keyalg", "EC", *who)
        _keytool("-exportcert", "-rfc", *own, "-file", self._path("trust.pem"))
        to = ["-destkeystore", self._path("key.p12"), "-deststoretype", "PKCS12", "-deststorepass", STORE]
        source = ["-srckeystore", self._path("key.jks"), "-srcstorepass", STORE, "-srcalias", "me"]
        _keytool("-importkeystore", *source, "-srckeypass", _KEY, *to, "-destkeypass", STORE)
        for form in ("jks", "p12"):
            trusted = ["-keystore", self._path(f"trust.{form}"), "-storepass", STORE]
            kind = ["-storetype", "JKS" if form == "jks" else "PKCS12"]
            _keytool("-importcert", "-noprompt", "-file", self._path("trust.pem"), *trusted, *kind)
        found = identity((folder / "key.jks").read_bytes(), STORE, _KEY)
        (folder / "key.pem").write_text(found.key + found.chain)

    def _path(self, name: str) -> str:
        return str(self._folder / name)

    def pem(self, name: str) -> str:
        """A PEM file's text as a line of a properties file."""
        return (self._folder / f"{name}.pem").read_text().strip().replace("\n", "\\n")

    def of(self, form: str) -> dict[str, str]:
        """A client's, in JKS, PKCS12 or PEM stores."""
        name = {"PKCS12": "p12"}.get(form, form.lower())
        settings = {f"ssl.{kind}store.location": self._path(f"{kind}.{name}") for kind in ("trust", "key")}
        if form == "PEM":
            return {**settings, "ssl.truststore.type": form, "ssl.keystore.type": form}
        settings |= {f"ssl.{kind}store.password": STORE for kind in ("trust", "key")}
        return {**settings, "ssl.key.password": _KEY} if form == "JKS" else settings


def _keytool(*arguments: str) -> None:
    tool = find_java().path.with_name("keytool")
    done = subprocess.run([tool, *arguments, "-J-XX:TieredStopAtLevel=1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def of_listener(stores: Stores, name: str) -> dict[str, str]:
    """A broker's listener that wants a certificate and a login, by each mechanism."""
    modules = {PLAIN: f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{SECRET}";'}
    modules |= dict.fromkeys(_SCRAM, f"{_MODULES}.scram.ScramLoginModule required;")
    own = {
        **stores.of("PKCS12"),
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.type": "PKCS12",
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(modules),
        **{f"{one.lower()}.sasl.jaas.config": text for one, text in modules.items()},
    }
    return {f"listener.name.{name}.{key}": value for key, value in own.items()}


def add_user(bootstrap: str, user: str = USER, secret: str = SECRET) -> None:
    """The user can log in by SCRAM."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in _SCRAM.values():  # a request may change one of them
        change = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), secret.encode())
        admin.alter_user_scram_credentials([change])[user].result(60)


def of_client(stores: Mapping[str, str], mechanism: str, password: str = SECRET) -> dict[str, str]:
    """The settings of a client that shows and trusts these stores, and logs in."""
    module = f"{_MODULES}.{'plain.Plain' if mechanism == PLAIN else 'scram.Scram'}LoginModule"
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
        **stores,
    }
