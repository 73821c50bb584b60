"""Settings of the REST API's login; `rest/security/` implements them."""

from __future__ import annotations

from typing import Final

from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import ListOf, NonEmpty, Range

_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW

EXTENSIONS: Final = "rest.extension.classes"
JAAS_FILE: Final = "java.security.auth.login.config"
USERS_FILE: Final = "rest.basic.auth.users.file"
JWKS: Final = "rest.bearer.jwks.endpoint.url"
ISSUER: Final = "rest.bearer.expected.issuer"
AUDIENCE: Final = "rest.bearer.expected.audience"
CERTIFICATES: Final = "rest.client.certificate.login"
MAPPING_RULES: Final = "ssl.principal.mapping.rules"
PRINCIPAL_SECRET: Final = "inter.worker.principal.secret"
OPEN_PATHS: Final = "rest.login.open.paths"

LOGIN: Final = Settings(
    Setting(
        USERS_FILE,
        Type.STRING,
        None,
        NonEmpty(),
        _MEDIUM,
        "A properties file of users, user=password or user=<bcrypt hash>: REST clients must log in as one of them. It "
        "is reread when it changes.",
    ),
    Setting(
        JAAS_FILE,
        Type.STRING,
        None,
        NonEmpty(),
        _LOW,
        "The JAAS file for the extension BasicAuthSecurityRestExtension; by default the one that "
        "-Djava.security.auth.login.config in KAFKA_OPTS names.",
    ),
    Setting(
        JWKS,
        Type.STRING,
        None,
        NonEmpty(),
        _MEDIUM,
        "Where the public keys of bearer tokens are: https://..., http://127.0.0.1..., or file:///... With it, REST "
        "clients may log in with a JWT.",
    ),
    Setting(
        ISSUER,
        Type.STRING,
        None,
        NonEmpty(),
        _MEDIUM,
        "The issuer (iss) that tokens must have; required with rest.bearer.jwks.endpoint.url.",
    ),
    Setting(
        AUDIENCE,
        Type.LIST,
        [],
        ListOf(),
        _MEDIUM,
        "Audiences (aud), of which tokens must have one; required with rest.bearer.jwks.endpoint.url.",
    ),
    Setting(
        "rest.bearer.clock.skew.seconds",
        Type.INT,
        30,
        Range(0, 3600),
        _LOW,
        "By how many seconds the clocks of a token's issuer and of the worker may differ.",
    ),
    Setting("rest.bearer.sub.claim.name", Type.STRING, "sub", NonEmpty(), _LOW, "The claim that names the principal."),
    Setting(
        "rest.bearer.groups.claim.name",
        Type.STRING,
        "groups",
        NonEmpty(),
        _LOW,
        "The claim that lists the principal's groups; a dot leads into an object, as in realm_access.roles.",
    ),
    Setting(
        "rest.bearer.jwks.endpoint.refresh.ms",
        Type.LONG,
        3_600_000,
        Range(1000),
        _LOW,
        "After how long the keys are fetched again; for a key that is not known they are at once.",
    ),
    Setting(
        CERTIFICATES,
        Type.BOOLEAN,
        False,
        None,
        _MEDIUM,
        "Whether a client's certificate, which ssl.client.auth asks for, is a login.",
    ),
    Setting(
        MAPPING_RULES,
        Type.STRING,
        "DEFAULT",
        NonEmpty(),
        _LOW,
        "How a certificate's distinguished name becomes the principal: RULE:pattern/replacement/[LU] or DEFAULT, "
        "separated by commas, of which the first that matches counts.",
    ),
    Setting(
        OPEN_PATHS,
        Type.LIST,
        [],
        ListOf(("/health", "/metrics")),
        _LOW,
        "What needs no login where the rest does: /health, /metrics or both.",
    ),
)
"""Login settings of every worker and of MirrorMaker's process."""
