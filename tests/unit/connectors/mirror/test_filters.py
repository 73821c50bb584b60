"""The choice of topics, groups and settings to replicate."""

from __future__ import annotations

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.mirror.filters import config_property_filter, group_filter, topic_filter


@pytest.mark.parametrize(
    ("topic", "passes"),
    [
        ("orders", True),
        ("my.internal", True),
        ("mm2-offset-syncs.B.internal", False),
        ("orders.replica", False),
        ("__consumer_offsets", False),
    ],
)
def test_all_topics_but_those_of_others_machinery_pass_by_default(topic: str, passes: bool) -> None:
    assert topic_filter({}).passes(topic) is passes


@pytest.mark.parametrize(
    ("topics", "passing"),
    [
        ("orders, pay.*", ["orders", "payments"]),
        ("orders|payments", ["orders", "payments"]),
        ("(?i)ORDERS,Pay\\w+", ["orders", "payments"]),
        ("ord", []),
        ("", []),
        (" ", []),
        ("[a-z]{6}", ["orders"]),
        ("[\\w\\-]+-dlq", ["orders-dlq"]),
        # A list's parts are joined before they are read, so a group may span them.
        ("(orders,payments)", ["orders", "payments"]),
    ],
)
def test_a_whole_name_has_to_match_one_of_the_expressions(topics: str, passing: list[str]) -> None:
    names = ["orders", "payments", "orders-dlq"]
    assert [name for name in names if topic_filter({"topics": topics}).passes(name)] == passing


def test_what_is_excluded_wins() -> None:
    passes = topic_filter({"topics": "orders.*", "topics.exclude": ".*-dlq"}).passes
    assert [name for name in ("orders", "orders-dlq", "payments") if passes(name)] == ["orders"]


def test_no_digit_or_letter_of_another_script_matches_as_in_java() -> None:
    assert not group_filter({"groups": "g\\d"}).passes("g\u0663")
    assert not group_filter({"groups": "\\w"}).passes("é")


@pytest.mark.parametrize(
    "wrong",
    ["(", "*", "a{1,2}", "a{,3}", "[a", "\\y"],
)
def test_what_java_refuses_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"topics\.exclude [\s\S]*Write it as Java"):
        topic_filter({"topics.exclude": wrong})


@pytest.mark.parametrize(
    ("right", "name"),
    [
        *((r"\Qa.b\E", "a.b"), (r"\p{Lower}+", "ab"), (r"(?<name>a)", "a"), ("[a-z&&[^b]]", "c"), ("[a[bc]]", "c")),
        *((r"a\{b", "a{b"), ("[{]", "{"), (r"\[a\[b\]", "[a[b]"), (r"[a\[b&]+", "&[a"), ("[]a]", "]"), ("a{2}", "aa")),
    ],
)
def test_java_s_syntax_is_taken(right: str, name: str) -> None:
    assert group_filter({"groups": right}).passes(name)


def test_groups_pass_but_those_of_tools_and_sinks() -> None:
    passes = group_filter({}).passes
    names = ["billing", "console-consumer-7", "connect-sink", "__internal"]
    assert [name for name in names if passes(name)] == ["billing"]


def test_settings_are_copied_but_those_that_depend_on_the_cluster() -> None:
    passes = config_property_filter({}).passes
    names = ["cleanup.policy", "min.insync.replicas", "message.timestamp.type", "log.message.timestamp.after.max.ms"]
    assert [name for name in names if passes(name)] == ["cleanup.policy"]
    assert config_property_filter({"config.properties.exclude": ""}).passes("min.insync.replicas")


@pytest.mark.parametrize(("text", "from_source"), [(None, False), ("target", False), ("source", True)])
def test_defaults_come_from_the_cluster_that_is_named(text: str | None, from_source: bool) -> None:
    config = {} if text is None else {"use.defaults.from": text}
    assert config_property_filter(config).defaults_from_source is from_source


def test_ours_are_the_only_filters() -> None:
    java = "org.apache.kafka.connect.mirror."
    topic_filter({"topic.filter.class": f"{java}DefaultTopicFilter"})
    group_filter({"group.filter.class": "DefaultGroupFilter"})
    config_property_filter({"config.property.filter.class": f"{java}DefaultConfigPropertyFilter"})
    with pytest.raises(ConfigError, match=r"topic\.filter\.class .*topics and topics\.exclude"):
        topic_filter({"topic.filter.class": "org.example.MyFilter"})
    with pytest.raises(ConfigError, match=r"group\.filter\.class"):
        group_filter({"group.filter.class": "org.example.MyFilter"})
    with pytest.raises(ConfigError, match=r"config\.property\.filter\.class"):
        config_property_filter({"config.property.filter.class": "org.example.MyFilter"})
