"""A broker with TLS, logins and ACLs, which lets nobody do what is not granted, and an identity provider for it."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

import jwt
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.integration.secured import SCRAM_512, STORE, Stores, add_user
from tests.tcp_proxy import ProxiedBroker, linked_broker
from tests.unit.converters.registry.scripted_registry import scripted

_MODULES: Final = "org.apache.kafka.common.security"
_OAUTH: Final = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
_ALLOWED: Final = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="
OPERATIONS: Final = AclOperation
TOPIC: Final = ResourceType.TOPIC
GROUP: Final = ResourceType.GROUP
CLUSTER: Final = ResourceType.BROKER
TRANSACTION: Final = ResourceType.TRANSACTIONAL_ID


class Grant(NamedTuple):
    """A grant to one user of operations on one thing; on all whose names begin so, if `prefixed`."""

    user: str
    kind: Any
    name: str
    operations: Sequence[Any]
    prefixed: bool = False

    def bindings(self) -> list[AclBinding]:
        pattern = ResourcePatternType.PREFIXED if self.prefixed else ResourcePatternType.LITERAL
        allow, who = AclPermissionType.ALLOW, f"User:{self.user}"
        return [AclBinding(self.kind, self.name, pattern, who, "*", one, allow) for one in self.operations]


class Tokens:
    """An identity provider: clients `<user>` with the secret `<user>-secret`, and who signs assertions."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        self.folder = folder
        self.lifetime_s = 3600
        self.fetched = 0

    def answer(self, handler: Any) -> None:
        """The keys of its signatures, or a token."""
        if handler.command == "GET":
            key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
            shown = {"keys": [{**key, "kid": "k", "use": "sig", "alg": "RS256"}]}
            return send_json(handler, 200, json.dumps(shown).encode())
        form = parse_qs(handler.body.decode())
        user = self._user(handler.headers.get("Authorization", ""), form)
        if not user:
            return send_json(handler, 401, b'{"error": "invalid_client"}')
        now = int(time.time())
        claims = {"sub": user, "iat": now, "exp": now + self.lifetime_s, "aud": "kafka", "iss": "us", "scope": "s"}
        token = jwt.encode(claims, self._key, "RS256", headers={"kid": "k"})
        self.fetched += 1
        return send_json(handler, 200, json.dumps({"access_token": token, "expires_in": self.lifetime_s}).encode())

    def _user(self, header: str, form: Mapping[str, list[str]]) -> str:
        if "assertion" in form:
            public = (self.folder / "assertion.pub").read_bytes()
            return str(jwt.decode(form["assertion"][0], public, ["RS256"], audience="idp")["sub"])
        user, _, secret = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
        return user if secret == f"{user}-secret" else ""


def send_json(handler: Any, status: int, data: bytes) -> None:
    """librdkafka takes no token from an answer that does not say that it is JSON."""
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


class Guarded(NamedTuple):
    """The broker, whose plain listener is for its operator, and how others log in."""

    broker: ProxiedBroker
    stores: Stores
    tokens: Tokens
    token_url: str

    @property
    def servers(self) -> str:
        """For who has to log in."""
        return self.broker.link_servers

    @property
    def admin(self) -> AdminClient:
        """The operator's."""
        return AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})

    def grant(self, *grants: Grant) -> None:
        """These rights are there."""
        admin = self.admin  # while somebody waits for an answer it must not go
        for answer in admin.create_acls([one for grant in grants for one in grant.bindings()]).values():
            answer.result(60)

    def revoke(self, *grants: Grant) -> None:
        """These rights are there no more."""
        filters = [
            AclBindingFilter(
                b.restype, b.name, b.resource_pattern_type, b.principal, b.host, b.operation, b.permission_type
            )
            for grant in grants
            for b in grant.bindings()
        ]
        admin = self.admin
        for answer in admin.delete_acls(filters).values():
            assert answer.result(60)

    def login(self, user: str, mechanism: str = SCRAM_512, prefix: str = "") -> dict[str, str]:
        """The settings of a client of this user, each with the prefix."""
        settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, **self.trust()}
        if mechanism == "OAUTHBEARER":
            options = f'clientId="{user}" clientSecret="{user}-secret"'
            settings["sasl.jaas.config"] = f"{_OAUTH} required {options};"
            settings["sasl.oauthbearer.token.endpoint.url"] = self.token_url
        else:
            module = f"{_MODULES}.scram.ScramLoginModule required"
            settings["sasl.jaas.config"] = f'{module} username="{user}" password="{user}-secret";'
        return {prefix + key: value for key, value in settings.items()}

    def trust(self) -> dict[str, str]:
        """A client's trust store."""
        own = self.stores.of("PKCS12")
        return {key: value for key, value in own.items() if key.startswith("ssl.truststore")} | {
            "ssl.truststore.type": "PKCS12"
        }


@contextlib.contextmanager
def guarded_broker(folder: Path, users: Sequence[str]) -> Iterator[Guarded]:
    """A broker that runs."""
    stores, tokens = Stores(folder / "stores"), Tokens(folder)
    with scripted((0, tokens.answer)) as idp, pytest.MonkeyPatch.context() as patched:
        patched.setenv("KAFKA_OPTS", f"{_ALLOWED}{idp.url}/keys")
        link = {
            "ssl.keystore.location": stores.of("PKCS12")["ssl.keystore.location"],
            "ssl.keystore.password": STORE,
            "ssl.keystore.type": "PKCS12",
            "sasl.enabled.mechanisms": f"{SCRAM_512},OAUTHBEARER",
            "scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
            "oauthbearer.sasl.jaas.config": f"{_OAUTH} required;",
            "oauthbearer.sasl.server.callback.handler.class": (
                f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"{idp.url}/keys",
            "oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
            "oauthbearer.connections.max.reauth.ms": "10000",
        }
        settings = {f"listener.name.link.{key}": value for key, value in link.items()} | {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": "User:ANONYMOUS",  # who comes by the plain listener, and the broker itself
            "auto.create.topics.enable": "false",
        }
        with linked_broker(folder / "broker", settings, "SASL_SSL") as (broker, _):
            patched.delenv("KAFKA_OPTS")
            for user in users:
                add_user(broker.bootstrap_servers, user, f"{user}-secret")
            yield Guarded(broker, stores, tokens, f"{idp.url}/token")
