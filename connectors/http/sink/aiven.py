"""The settings of Aiven's HTTP sink, by its names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import REQUIRED, Importance, Settings, Type
from headrace.config.tls import TlsSettings
from headrace.config.validators import Check, OneOfIgnoringCase, OrNull, Range
from headrace.config.values import invalid
from headrace.config.worker.allowed_hosts import AllowedHosts
from headrace.connectors.http.attempts import Retries, Statuses, constant
from headrace.connectors.http.login import Login, TokenLogin, TokenRequest, check_header, parsed_headers
from headrace.connectors.http.settings import TLS, URL, URL_OR_NONE, number, option, plain, proxy_of, required
from headrace.connectors.http.sink.options import Body, Nulls, SinkOptions
from headrace.connectors.http.sink.task import Outlet
from headrace.plugins.interop.http.client import HttpClient

_TYPE: Final = "http.authorization.type"
_AUTHORIZATION: Final = "http.headers.authorization"
_CONTENT_TYPE: Final = "http.headers.content.type"
_KEPT_BYTES: Final = 64 << 10


def _wrong_statuses(name: str, value: Any) -> str | None:
    wrong = [one for one in value or () if not one.isdecimal() or not 100 <= int(one) <= 599]
    return invalid(name, value, f"'{wrong[0]}' is no HTTP status") if wrong else None


SETTINGS: Final = Settings(
    option("http.url", Type.STRING, REQUIRED, "The URL to which records are posted.", URL, Importance.HIGH),
    option(
        _TYPE,
        Type.STRING,
        REQUIRED,
        "The login: none, static or oauth2.",
        OneOfIgnoringCase("none", "static", "oauth2"),
        Importance.HIGH,
    ),
    option(_AUTHORIZATION, Type.PASSWORD, None, "The header Authorization, for static."),
    option(_CONTENT_TYPE, Type.STRING, None, "The header Content-Type."),
    option("http.headers.additional", Type.PASSWORD, "", "Further headers, as name:value, separated by commas."),
    option("oauth2.access.token.url", Type.STRING, None, "Where tokens are fetched, for oauth2.", URL_OR_NONE),
    option("oauth2.client.id", Type.STRING, None, "The client's id, for oauth2."),
    option("oauth2.client.secret", Type.PASSWORD, None, "The client's secret, for oauth2."),
    option("oauth2.client.scope", Type.STRING, None, "The scope that is asked for."),
    option("oauth2.grant.type", Type.STRING, "client_credentials", "The grant that is asked for."),
    option("oauth2.request.grant.type.property", Type.STRING, "grant_type", "The form's member for the grant."),
    option("oauth2.request.client.id.property", Type.STRING, "client_id", "The form's member for the id, in URL mode."),
    option(
        "oauth2.request.client.secret.property",
        Type.STRING,
        "client_secret",
        "The form's member for the secret, in URL mode.",
    ),
    option(
        "oauth2.client.authorization.mode",
        Type.STRING,
        "HEADER",
        "How id and secret are sent: HEADER (Basic), or URL (in the form).",
        OneOfIgnoringCase("HEADER", "URL"),
    ),
    option("oauth2.response.token.property", Type.STRING, "access_token", "The member of the answer with the token."),
    option(
        "oauth2.token.renew.on.status.codes",
        Type.LIST,
        ["401"],
        "Statuses after which another token is fetched.",
        Check(_wrong_statuses, "HTTP statuses, separated by commas"),
    ),
    option("batching.enabled", Type.BOOLEAN, False, "True: records share a request."),
    number("batch.max.size", 500, "The most records of one request.", 1, 1_000_000),
    option("batch.prefix", Type.STRING, "", "Stands before the records of a request."),
    option("batch.suffix", Type.STRING, "\n", "Stands behind the records of a request."),
    option("batch.separator", Type.STRING, "\n", "Stands between the records of a request."),
    number("max.retries", 1, "How often a request is tried again."),
    number("retry.backoff.ms", 3000, "The pause before a retry."),
    option("kafka.retry.backoff.ms", Type.LONG, None, "Accepted; the worker decides.", OrNull(Range(0))),
    number("http.timeout", 30, "The longest wait for a connection, or an answer, in seconds.", 1),
    option("http.proxy.host", Type.STRING, None, "The host of an HTTP proxy; empty: none."),
    option("http.proxy.port", Type.INT, None, "The proxy's port.", OrNull(Range(1, 65535))),
    option("http.ssl.trust.all.certs", Type.BOOLEAN, False, "Trusts any certificate; not served."),
    option("http.ssl.truststore.location", Type.STRING, None, "The store of trusted certificates (JKS, PKCS12, PEM)."),
    option("http.ssl.truststore.password", Type.PASSWORD, None, "The store's password."),
    option(
        "decimal.format",
        Type.STRING,
        "BASE64",
        "How decimals are written in JSON.",
        OneOfIgnoringCase("BASE64", "NUMERIC"),
    ),
)


class Aiven:
    """Reads the settings of Aiven's sink."""

    def options(self, config: Mapping[str, str]) -> SinkOptions:
        """The behaviour. Errors: ConfigError."""
        values = SETTINGS.parse(config)
        _check(values, config)
        for key in (_AUTHORIZATION, _CONTENT_TYPE):
            check_header(key, plain(values[key]))
        headers = parsed_headers(plain(values["http.headers.additional"]), ",", "http.headers.additional")
        if kind := values[_CONTENT_TYPE]:
            headers |= {"Content-Type": kind}
        is_batched = values["batching.enabled"]
        return SinkOptions(
            url=values["http.url"],
            url_setting="http.url",
            method="POST",
            headers=headers,
            body=Body.TEXT_OR_JSON,
            retries=Retries(values["max.retries"], Statuses.of("300-"), constant(values["retry.backoff.ms"] / 1000)),
            numeric_decimals=values["decimal.format"].upper() == "NUMERIC",
            nulls=Nulls.FAIL,
            nulls_setting="this connector (leave such records out by the transform Filter with RecordIsTombstone)",
            batch_size=values["batch.max.size"] if is_batched else 1,
            # Parsed values have lost blanks and line ends around them.
            prefix=config.get("batch.prefix", "") if is_batched else "",
            suffix=config.get("batch.suffix", "\n") if is_batched else "",
            separator=config.get("batch.separator", "\n"),
            has_templates=False,
        )

    def outlet(self, config: Mapping[str, str], worker: Mapping[str, Any]) -> Outlet:
        """The client and the login. Errors: ConfigError."""
        values = SETTINGS.parse(config)
        client = HttpClient(
            AllowedHosts.of(worker),
            connect_s=values["http.timeout"],
            read_s=values["http.timeout"],
            context=_tls(values).client_context(),
            proxy=proxy_of(values["http.proxy.host"], values["http.proxy.port"], None, None),
            trust_setting="http.ssl.truststore.location",
            read_setting="http.timeout",
            largest_bytes=_KEPT_BYTES,
        )
        return Outlet(client, _login(values, client))


def _check(values: Mapping[str, Any], config: Mapping[str, str]) -> None:
    """Refuse settings that contradict each other. Errors: ConfigError."""
    problems = []
    kind, own = values[_TYPE].lower(), plain(values[_AUTHORIZATION])
    if kind == "static" and not own:
        problems.append(Problem(_AUTHORIZATION, None, f"{_TYPE}=static needs it.", "Set it to the whole header."))
    if kind == "none" and own:
        problems.append(Problem(_AUTHORIZATION, None, f"{_TYPE}=none does not send it.", f"Set {_TYPE}=static."))
    if values["http.ssl.trust.all.certs"]:
        what = "Any certificate would be trusted, which is not served."
        remedy = "Set http.ssl.truststore.location to a store with the server's certificate or its authority."
        problems.append(Problem("http.ssl.trust.all.certs", "true", what, remedy))
    if values["batching.enabled"] and config.get("errors.tolerance", "").strip().lower() == "all":
        what = "With batching.enabled=true it is refused: the records of a refused request cannot be told apart."
        problems.append(Problem("errors.tolerance", "all", what, "Set one of the two to its default."))
    if bool(values["http.proxy.host"]) != bool(values["http.proxy.port"]):
        missing = "http.proxy.port" if values["http.proxy.host"] else "http.proxy.host"
        problems.append(Problem(missing, None, "The proxy needs host and port.", f"Give {missing}, or neither."))
    if problems:
        raise ConfigError(problems)


def _tls(values: Mapping[str, Any]) -> TlsSettings:
    kept = {f"ssl.{name}": values[f"http.ssl.{name}"] for name in ("truststore.location", "truststore.password")}
    return TlsSettings({one.name.removeprefix("https."): one.default for one in TLS} | kept, "http.")


def _login(values: Mapping[str, Any], client: HttpClient) -> Login:
    kind = values[_TYPE].lower()
    if kind == "static":
        return Login({"Authorization": plain(values[_AUTHORIZATION])})
    if kind == "none":
        return Login()
    keys = ("oauth2.access.token.url", "oauth2.client.id", "oauth2.client.secret")
    required(values, f"for {_TYPE}=oauth2", *keys)
    request = TokenRequest(
        keys[0],
        values[keys[0]],
        values[keys[1]],
        plain(values[keys[2]]),
        values["oauth2.client.authorization.mode"].upper() == "HEADER",
        values["oauth2.client.scope"],
        values["oauth2.response.token.property"],
        values["oauth2.grant.type"],
        values["oauth2.request.grant.type.property"],
        values["oauth2.request.client.id.property"],
        values["oauth2.request.client.secret.property"],
        advice="Check oauth2.client.id, oauth2.client.secret, oauth2.client.scope and oauth2.response.token.property.",
    )
    return TokenLogin(request, client, frozenset(map(int, values["oauth2.token.renew.on.status.codes"])))
