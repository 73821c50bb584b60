"""The settings of Confluent's HTTP sink, by its names; its ancestor `uk.co.threefi.connect.http` has a part of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import REQUIRED, Importance, Settings, Type
from headrace.config.validators import Check, OneOfIgnoringCase, Range
from headrace.connectors.http.address_bounds import BoundedHosts, networks_problem
from headrace.connectors.http.confluent_login import login_of, login_settings
from headrace.connectors.http.confluent_retries import retries_of, retry_settings
from headrace.connectors.http.login import parsed_headers
from headrace.connectors.http.settings import PROXY, TLS, URL, number, option, plain, proxy_of, tls_of
from headrace.connectors.http.sink.options import KEY, TOPIC, Body, Nulls, OnError, Replacement, SinkOptions
from headrace.connectors.http.sink.reports import NO_REPORTS, Reports, ReportTopic, TextFormat, TopicReports
from headrace.connectors.http.sink.task import Outlet
from headrace.connectors.http.sink.templates import names
from headrace.plugins.interop.http.client import HttpClient
from headrace.plugins.interop.java.regex import regex_problem
from headrace.plugins.interop.kafka.side_topics import SideTopic, SideTopics

_URL: Final = "http.api.url"
_REPORTER: Final = "reporter."
_KEPT_BYTES: Final = 64 << 10
"""The part of an answer that is kept for reports."""
_NETWORKS: Final = Check(networks_problem, "networks, such as 10.0.0.0/8, separated by commas")


def _reporter(kind: str, format_: str) -> Settings:
    name = f"{_REPORTER}{kind}.topic."
    formats = OneOfIgnoringCase("json", "string")
    return Settings(
        option(
            f"{name}name",
            Type.STRING,
            f"{format_}-responses",
            f"The topic of reports of {format_}; may have ${{connector}}.",
        ),
        option(f"{name}replication.factor", Type.SHORT, 3, "Its replication, if it is made.", Range(1)),
        number(f"{name}partitions", 1, "Its partitions, if it is made.", 1),
        option(f"{name}key.format", Type.STRING, "json", "The format of keys.", formats),
        option(f"{name}key.format.schemas.enable", Type.BOOLEAN, False, "True: JSON keys carry their schema."),
        option(f"{name}value.format", Type.STRING, "json", "The format of values.", formats),
        option(f"{name}value.format.schemas.enable", Type.BOOLEAN, False, "True: JSON values carry their schema."),
    )


SETTINGS: Final = (
    Settings(
        option(
            _URL, Type.STRING, REQUIRED, "The URL; ${topic}, ${key} and ${field} are filled in.", URL, Importance.HIGH
        ),
        option("request.method", Type.STRING, "post", "POST, PUT or PATCH.", OneOfIgnoringCase("post", "put", "patch")),
        option("headers", Type.PASSWORD, "", "Headers of all requests, as Name:value."),
        option("sensitive.headers", Type.PASSWORD, "", "Further headers, as Name:value."),
        option("header.separator", Type.STRING, "|", "What separates headers."),
        option(
            "behavior.on.null.values",
            Type.STRING,
            "ignore",
            "What is done with a record without value: ignore, log, delete (HTTP DELETE), or fail.",
            OneOfIgnoringCase("ignore", "log", "delete", "fail"),
        ),
        option(
            "deletes.send.in.order",
            Type.BOOLEAN,
            False,
            "Accepted. A DELETE is always sent behind the records before it.",
        ),
        option(
            "behavior.on.error",
            Type.STRING,
            "fail",
            "What is done with a record that cannot be sent: fail, log or ignore.",
            OneOfIgnoringCase("fail", "log", "ignore"),
        ),
        option(
            "report.errors.as",
            Type.STRING,
            "error_string",
            "What reports of errors hold: error_string, or http_response.",
            OneOfIgnoringCase("error_string", "http_response"),
        ),
        *retry_settings(5),
        option("regex.patterns", Type.STRING, "", "Patterns that are replaced in each record's text."),
        option("regex.replacements", Type.STRING, "", "Their replacements; may have ${topic} and ${key}."),
        option("regex.separator", Type.STRING, "~", "What separates patterns, and replacements."),
        option(
            "request.body.format",
            Type.STRING,
            "string",
            "string: the value's text; json: the value as JSON.",
            OneOfIgnoringCase("string", "json"),
        ),
        option(
            "json.decimal.format",
            Type.STRING,
            "BASE64",
            "How decimals are written in JSON: BASE64 or NUMERIC.",
            OneOfIgnoringCase("BASE64", "NUMERIC"),
        ),
        number("batch.max.size", 1, "The most records of one request.", 1),
        option("batch.json.as.array", Type.BOOLEAN, True, "True: JSON is sent as an array, also for one record."),
        option("batch.key.pattern", Type.STRING, "someKey", "Records share a request if this is equal for them."),
        option("batch.prefix", Type.STRING, "", "Stands before the records of a request."),
        option("batch.suffix", Type.STRING, "", "Stands behind the records of a request."),
        option("batch.separator", Type.STRING, ",", "Stands between the records of a request."),
        option("batch.seperator", Type.STRING, None, "Another spelling of batch.separator."),
        number("http.connect.timeout.ms", 30000, "The longest wait for a connection.", 1),
        number("http.request.timeout.ms", 30000, "The longest wait for an answer.", 1),
        *(
            option(f"connection.disallow.{kind}.ips", Type.BOOLEAN, False, f"True: {text} addresses are refused.")
            for kind, text in (("local", "this machine's"), ("private", "private"), ("class.e", "reserved"))
        ),
        option("connection.allow.cidr.ranges", Type.LIST, [], "The only networks to connect to.", _NETWORKS),
        option("connection.disallow.cidr.ranges", Type.LIST, [], "Networks that are refused.", _NETWORKS),
        option("reporter.bootstrap.servers", Type.STRING, "", "The brokers of the reports; empty: there are none."),
    )
    + login_settings("NONE", "BASIC", "OAUTH2")
    + PROXY
    + TLS
    + _reporter("result", "success")
    + _reporter("error", "error")
)


class Confluent:
    """Reads the settings of Confluent's sink."""

    def options(self, config: Mapping[str, str]) -> SinkOptions:
        """The behaviour. Errors: ConfigError."""
        values = SETTINGS.parse(config)
        separator = values["header.separator"] or "|"
        headers: dict[str, str] = {}
        for key in ("headers", "sensitive.headers"):
            headers |= parsed_headers(plain(values[key]), separator, key)
        found = SinkOptions(
            url=values[_URL],
            url_setting=_URL,
            method=values["request.method"].upper(),
            headers=headers,
            body=Body(values["request.body.format"].lower()),
            retries=retries_of(values),
            numeric_decimals=values["json.decimal.format"].upper() == "NUMERIC",
            nulls=Nulls(values["behavior.on.null.values"].lower()),
            on_error=OnError(values["behavior.on.error"].lower()),
            batch_size=values["batch.max.size"],
            batch_key=values["batch.key.pattern"] or "",
            replacements=_replacements(config, values["regex.separator"] or "~"),
            **_joints(config, values)._asdict(),
        )
        if problems := list(_problems(found)):
            raise ConfigError(problems)
        return _typed(found)

    def outlet(self, config: Mapping[str, str], worker: Mapping[str, Any]) -> Outlet:
        """The client, the login and the reports. Errors: ConfigError."""
        values = SETTINGS.parse(config)
        client = HttpClient(
            BoundedHosts.of(values, worker),
            connect_s=values["http.connect.timeout.ms"] / 1000,
            read_s=values["http.request.timeout.ms"] / 1000,
            context=tls_of(values).client_context(),
            proxy=proxy_of(*(values[f"http.proxy.{name}"] for name in ("host", "port", "user", "password"))),
            trust_setting="https.ssl.truststore.location",
            read_setting="http.request.timeout.ms",
            largest_bytes=_KEPT_BYTES,
        )
        return Outlet(client, login_of(values, client), _reports(config, values))


class _Joints(NamedTuple):
    prefix: str
    separator: str
    suffix: str


def _joints(config: Mapping[str, str], values: Mapping[str, Any]) -> _Joints:
    if values["request.body.format"].lower() == "json" and values["batch.json.as.array"]:
        return _Joints("[", ",", "]")
    # Parsed values have lost blanks and line ends around them.
    separator = config.get("batch.separator", config.get("batch.seperator", ","))
    return _Joints(config.get("batch.prefix", ""), separator, config.get("batch.suffix", ""))


def _typed(options: SinkOptions) -> SinkOptions:
    """The options with a header Content-Type, by the body, unless the settings have one."""
    if any(name.lower() == "content-type" for name in options.headers):
        return options
    kind = "application/json" if options.body is Body.JSON else "text/plain; charset=UTF-8"
    return replace(options, headers={"Content-Type": kind, **options.headers})


def _replacements(config: Mapping[str, str], separator: str) -> Sequence[Replacement]:
    """The pairs of patterns and replacements; a replacement that is missing is empty. Errors: ConfigError."""
    patterns, replacements = (config.get(f"regex.{kind}", "").split(separator) for kind in ("patterns", "replacements"))
    if patterns == [""]:
        return ()
    if len(replacements) > len(patterns):
        what = f"There are {len(replacements)} replacements for {len(patterns)} patterns."
        raise ConfigError(Problem("regex.replacements", config["regex.replacements"], what, "Give one for each."))
    replacements += [""] * (len(patterns) - len(replacements))
    found = [Replacement(*pair) for pair in zip(patterns, replacements, strict=False)]
    problems = [
        Problem("regex.patterns", one.pattern, why)
        for one in found
        if (why := regex_problem("regex.patterns", one.pattern))
    ]
    remedy = "Write a dollar sign as \\$, a group as $1, and ${topic} or ${key}."
    for one in found:
        if why := _wrong_replacement(one):
            problems.append(Problem("regex.replacements", one.by, why, remedy))
    if problems:
        raise ConfigError(problems)
    return found


def _wrong_replacement(one: Replacement) -> str | None:
    """The reason that Java would refuse to replace by this text; None if it would not."""
    groups = len(re.findall(r"(?<!\\)\((?!\?(?!<[A-Za-z]))", one.pattern))
    if unknown := [name for name in names(one.by) if name not in (KEY, TOPIC)]:
        return f"${{{unknown[0]}}} is not known."
    left = re.sub(r"\$\{[^}]*\}|\\.", "", one.by)
    if left.endswith("\\") or re.search(r"\$(?![0-9])", left):
        return "It ends in a backslash, or has a dollar sign that names no group."
    if any(int(digit) > groups for digit in re.findall(r"\$([0-9])", left)):
        return f"It names a group that the pattern {one.pattern!r} does not have."
    return None


def _problems(options: SinkOptions) -> Sequence[Problem]:
    found = []
    if options.nulls is Nulls.DELETE and KEY not in names(options.url):
        what = "behavior.on.null.values=delete needs ${key} in it, or the whole collection would be deleted."
        found.append(Problem(_URL, None, what, "Add ${key} where the URL of one record has it."))
    scheme, _, rest = options.url.partition("://")
    if names(scheme) or names(rest.partition("/")[0]):
        what = "Records cannot choose the server: it gets the login."
        found.append(Problem(_URL, None, what, "Name the host, and use ${…} in the path or the query only."))
    if wrong := [name for name in names(options.batch_key) if name not in (KEY, TOPIC)]:
        what = f"${{{wrong[0]}}} is not known."
        found.append(Problem("batch.key.pattern", options.batch_key, what, "Use ${topic} and ${key}."))
    if options.body is Body.JSON and options.batch_size > 1 and not options.separator:
        what = "Without it records of one request run into each other."
        found.append(Problem("batch.separator", "", what, "Set it, or batch.json.as.array=true."))
    return found


def _reports(config: Mapping[str, str], values: Mapping[str, Any]) -> Reports:
    if not values["reporter.bootstrap.servers"]:
        return NO_REPORTS
    kinds = ("result", "error")
    result, error = (_report_topic(values, kind, config.get("name", "")) for kind in kinds)
    made = [
        SideTopic(
            topic.name, *(values[f"{_REPORTER}{kind}.topic.{one}"] for one in ("partitions", "replication.factor"))
        )
        for kind, topic in zip(kinds, (result, error), strict=True)
    ]
    topics = SideTopics(_client(config, "producer"), _client(config, "admin"), made)
    as_answer = values["report.errors.as"].lower() == "http_response"
    return TopicReports(topics, result, error, as_answer)


def _client(config: Mapping[str, str], kind: str) -> ClientConfig:
    java = {"client.id": f"{config.get('name', '')}-reporter"}
    for prefix in (_REPORTER, f"{_REPORTER}{kind}."):
        java |= {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
    return ClientConfig(kind, java)


def _report_topic(values: Mapping[str, Any], kind: str, connector: str) -> ReportTopic:
    name = f"{_REPORTER}{kind}.topic."
    formats = (
        TextFormat(values[f"{name}{side}.format"].lower() == "json", values[f"{name}{side}.format.schemas.enable"])
        for side in ("key", "value")
    )
    return ReportTopic(values[f"{name}name"].replace("${connector}", connector), *formats)
