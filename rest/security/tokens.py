"""Checks bearer tokens: JWTs signed with one of the issuer's keys, for this worker, and not expired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import jwt

from headrace.config.problems import ConfigError, Problem
from headrace.config.worker.login_settings import AUDIENCE, ISSUER, JWKS
from headrace.rest.security.jwks import Keys, keys_at
from headrace.rest.security.principal import Principal
from headrace.rest.security.refusals import WrongLogin

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Algorithms with public keys: with others, such as HS256, a worker that checks tokens could make them."""
_LONGEST: Final = 16 << 10


@dataclass(frozen=True)
class Tokens:
    """Finds the principals of tokens.

    Decided: issuer and audience are required, though Kafka's settings of these names are not, because keys that sign
    for many services or tenants would let in everybody with a token for any of them; loses: two lines more.
    """

    keys: Keys
    issuer: str
    audience: Sequence[str]
    skew_s: int
    name_claim: str
    groups_claim: str

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The check of tokens by these settings. Errors: ConfigError."""
        problems = [
            Problem(key, None, f"{JWKS} needs it.", f"Set it to the {claim} that the tokens have.")
            for key, claim in ((ISSUER, "iss"), (AUDIENCE, "aud"))
            if not settings.get(key)
        ]
        if problems:
            raise ConfigError(problems)
        return cls(
            keys_at(settings[JWKS], settings["rest.bearer.jwks.endpoint.refresh.ms"] / 1000),
            settings[ISSUER],
            tuple(settings[AUDIENCE]),
            settings["rest.bearer.clock.skew.seconds"],
            settings["rest.bearer.sub.claim.name"],
            settings["rest.bearer.groups.claim.name"],
        )

    async def principal(self, token: str) -> Principal:
        """The subject of the token. Errors: LoginRefused; Unchecked if the keys cannot be fetched."""
        if len(token) > _LONGEST:
            raise WrongLogin(f"the token has more than {_LONGEST} bytes")
        try:
            header = jwt.get_unverified_header(token)
            kid, algorithm = header.get("kid"), header.get("alg")
            if algorithm not in _ALGORITHMS:
                raise WrongLogin("the token's algorithm is not one of " + ", ".join(_ALGORITHMS))
            key = await self.keys.find(kid, algorithm)
            if key is None:
                raise WrongLogin("the token is signed with a key that the JWKS does not have")
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self.audience,
                issuer=self.issuer,
                leeway=self.skew_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise WrongLogin(f"the token is not valid: {_reason(error)}") from None
        name = _claim(claims, self.name_claim)
        if not isinstance(name, str) or not name.strip():
            raise WrongLogin(f"the token has no text as claim {self.name_claim}")
        return Principal(name, _groups(_claim(claims, self.groups_claim)))


def _reason(error: Exception) -> str:
    """The fault by PyJWT's type of error; its texts may quote the token."""
    reasons = {
        jwt.ExpiredSignatureError: "it has expired",
        jwt.ImmatureSignatureError: "it is not valid yet",
        jwt.InvalidIssuedAtError: "it was issued in the future",
        jwt.InvalidIssuerError: "its issuer is another",
        jwt.InvalidAudienceError: "its audience is another",
        jwt.MissingRequiredClaimError: "exp, iss or aud is missing",
        jwt.InvalidSignatureError: "its signature is wrong",
    }
    return next((text for kind, text in reasons.items() if isinstance(error, kind)), "it is no JWT")


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by names joined with dots that lead to it."""
    if name in claims:
        return claims[name]
    first, _, rest = name.partition(".")
    inner = claims.get(first)
    return _claim(inner, rest) if rest and isinstance(inner, dict) else None


def _groups(value: Any) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.replace(",", " ").split())
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, list) else frozenset()
