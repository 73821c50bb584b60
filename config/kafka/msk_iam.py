"""Login to Amazon MSK by IAM, configured as for AWS' Java login module; AWS' signer library makes the tokens.

Two forms are accepted: `sasl.mechanism=AWS_MSK_IAM` with IAMLoginModule and IAMClientCallbackHandler, and
`sasl.mechanism=OAUTHBEARER` with IAMOAuthBearerLoginCallbackHandler. Both send OAUTHBEARER to the brokers, which accept
it on the same port.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from headrace.config.problems import Problem
from headrace.config.values import HIDDEN

MECHANISM: Final = "AWS_MSK_IAM"
LOGIN_MODULE: Final = "software.amazon.msk.auth.iam.IAMLoginModule"
CLIENT_HANDLER: Final = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
LOGIN_HANDLER: Final = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_LIBRARY: Final = "aws_msk_iam_sasl_signer"
_BROKER: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?(?::\d+)?$")
_SERVED: Final = ("awsProfileName", "awsRoleArn", "awsRoleSessionName")
_WITHOUT_EFFECT: Final = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")


class IamToken(NamedTuple):
    """A signed token, as confluent-kafka's `oauth_cb` returns it; `until` is in seconds of the epoch."""

    text: str
    until: float


@dataclass(frozen=True)
class MskIam:
    """The credentials to sign tokens: the machine's or environment's, a profile's, or a role's."""

    region: str
    profile: str = ""
    role: str = ""
    session: str = ""

    def __call__(self, _: Any = None) -> IamToken:
        """A new token. Errors: those of the signer library and of botocore."""
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer

        if self.role:
            named = (self.session,) if self.session else ()
            text, until_ms = Signer.generate_auth_token_from_role_arn(self.region, self.role, *named)
        elif self.profile:
            text, until_ms = Signer.generate_auth_token_from_profile(self.region, self.profile)
        else:
            text, until_ms = Signer.generate_auth_token(self.region)
        return IamToken(text, until_ms / 1000)


def is_asked_for(java: Mapping[str, str]) -> bool:
    """True if these settings log in by IAM."""
    by_name = java.get("sasl.mechanism", "").strip().upper() == MECHANISM
    return by_name or java.get("sasl.login.callback.handler.class", "").strip() == LOGIN_HANDLER


def msk_iam(java: Mapping[str, str], options: Mapping[str, str], problems: list[Problem]) -> MskIam:
    """The login of these settings and login module options; faults are added to `problems`."""
    if find_spec(_LIBRARY) is None:
        what = "AWS' signer library is not installed."
        problems.append(Problem("sasl.mechanism", java.get("sasl.mechanism"), what, "pip install 'headrace[msk]'"))
    if java.get("security.protocol", "").strip().upper() != "SASL_SSL":
        what = "A token of IAM is sent over TLS only."
        problems.append(Problem("security.protocol", java.get("security.protocol"), what, "Set it to SASL_SSL."))
    unserved = [name for name in options if name not in (*_SERVED, *_WITHOUT_EFFECT)]
    if unserved:
        remedy = f"Use {', '.join(_SERVED)}, or AWS' environment variables and config files."
        problems.append(Problem("sasl.jaas.config", HIDDEN, f"{', '.join(unserved)} is not served.", remedy))
    return MskIam(_region(java, problems), *(options.get(name, "") for name in _SERVED))


def _region(java: Mapping[str, str], problems: list[Problem]) -> str:
    servers = java.get("bootstrap.servers", "")
    found = [match[1] for server in servers.split(",") if (match := _BROKER.search(server.strip()))]
    region = found[0] if found else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    if not region:
        what = "No server's name tells the AWS region."
        problems.append(Problem("bootstrap.servers", servers or None, what, "Set the variable AWS_REGION."))
    return region
