"""JAAS files as Java reads them, and the one that KAFKA_OPTS names."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.config.kafka.jaas import is_for_clients, parse_jaas, split_option

MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


def test_sections_modules_and_options_as_java_writes_them() -> None:
    found = parse_jaas(
        f"""
        // users of the REST API
        KafkaConnect {{
            {MODULE} Required
            file="/etc/a b/u\\"sers.properties" debug=true;
        }};
        /* and of
           Kafka */
        KafkaClient {{ a.B required user="x" ; c.D optional; }};
        Empty {{ }};
        """
    )
    (one,) = found["KafkaConnect"]
    assert (one.class_name, one.flag) == (MODULE, "required")
    assert one.options == {"file": '/etc/a b/u"sers.properties', "debug": "true"}
    assert [module.class_name for module in found["KafkaClient"]] == ["a.B", "c.D"]
    assert found["Empty"] == []
    assert "/etc" not in repr(one)


@pytest.mark.parametrize(
    "text",
    [
        "KafkaConnect { a.B required file=x; }",
        "KafkaConnect { a.B required file=x }; ",
        "KafkaConnect { a.B file=x; };",
        "KafkaConnect { a.B required file; };",
        'KafkaConnect { a.B required password="hunter2; };',
        "A { }; A { };",
        "A { a.B required x=#; };",
        "{",
    ],
)
def test_what_is_none_is_refused_without_a_quote_of_it(text: str) -> None:
    with pytest.raises(ValueError, match=r".+") as refused:
        parse_jaas(text)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("opts", "found"),
    [
        ("", (None, False)),
        ("-Djava.security.auth.login.config=/a/b", ("/a/b", False)),
        ("'-Djava.security.auth.login.config=/a b' -Xmx1g", ("/a b", True)),
        ("-Djava.security.auth.login.config==/a", ("/a", False)),
        ("-Djava.security.auth.login.config=file:///a%20b", ("/a b", False)),
        ("-Da=1 -Djava.security.auth.login.config=/a -Djava.security.auth.login.config=/b", ("/b", True)),
        ('-Djava.security.auth.login.config=/a -Dx="', ("/a", True)),
        ("-javaagent:/jmx.jar=1", (None, True)),
    ],
)
def test_the_file_that_kafka_opts_name(opts: str, found: tuple[str | None, bool]) -> None:
    assert split_option(opts) == found


def test_a_file_of_kafkas_clients_is_known(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    assert not is_for_clients(str(file))
    file.write_text("KafkaClient { a.B required; };")
    assert is_for_clients(str(file))
    file.write_text("KafkaConnect { a.B required; };")
    assert not is_for_clients(str(file))
