from __future__ import annotations

import base64
import pickle
import time

import pytest

from headrace.config.kafka import msk_iam
from headrace.config.kafka.client_config import ClientConfig
from headrace.config.kafka.msk_iam import MskIam
from headrace.config.problems import ConfigError
from headrace.plugins.interop.kafka.tokens import kafka_python

BASE = {
    "bootstrap.servers": "b-1.mine.abc.c2.kafka.eu-west-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": f"{msk_iam.LOGIN_MODULE} required;",
    "sasl.client.callback.handler.class": msk_iam.CLIENT_HANDLER,
}
OAUTH = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'awsProfileName="dev";',
    "sasl.login.callback.handler.class": msk_iam.LOGIN_HANDLER,
}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def iam(**java: str) -> MskIam | None:
    return ClientConfig("consumer", {**BASE, **{key.replace("_", "."): value for key, value in java.items()}}).login.iam


def test_tokens_are_signed_for_the_region_that_the_brokers_names_tell() -> None:
    pytest.importorskip("aws_msk_iam_sasl_signer")
    client = ClientConfig("consumer", BASE)
    provider = kafka_python(client)["sasl_oauth_token_provider"]
    text = provider.token()
    url = base64.urlsafe_b64decode(text + "==").decode()
    assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect")
    assert "AKIAEXAMPLE" in url
    assert "s3cret" not in url
    settings = client.librdkafka()
    assert settings["sasl.mechanism"] == "OAUTHBEARER"
    callback = pickle.loads(pickle.dumps(settings["oauth_cb"]))
    signed, until = callback("")
    assert signed
    assert 600 < until - time.time() <= 900
    assert provider.token() == text, "it is used again"


def test_both_ways_to_write_it_are_one() -> None:
    assert ClientConfig("admin", BASE).login.iam == MskIam("eu-west-1")
    assert ClientConfig("admin", BASE | OAUTH).login.iam == MskIam("eu-west-1", profile="dev")
    role = f'{msk_iam.LOGIN_MODULE} required awsRoleArn="arn:r" awsRoleSessionName="s" awsDebugCreds=true;'
    assert iam(sasl_jaas_config=role) == MskIam("eu-west-1", role="arn:r", session="s")


def test_the_region_comes_from_the_environment_where_names_tell_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers.*AWS_REGION"):
        iam(bootstrap_servers="10.0.0.1:9098")
    monkeypatch.setenv("AWS_REGION", "cn-north-1")
    assert iam(bootstrap_servers="10.0.0.1:9098") == MskIam("cn-north-1")
    serverless = "boot-x.c1.kafka-serverless.us-east-1.amazonaws.com:9098"
    assert iam(bootstrap_servers=serverless) == MskIam("us-east-1")


def test_what_is_refused_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    external = f'{msk_iam.LOGIN_MODULE} required awsRoleExternalId="x";'
    with pytest.raises(ConfigError, match="awsRoleExternalId is not served"):
        iam(sasl_jaas_config=external)
    with pytest.raises(ConfigError, match="over TLS only"):
        iam(security_protocol="SASL_PLAINTEXT")
    monkeypatch.setattr(msk_iam, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[msk\]'"):
        iam()


def test_without_credentials_the_client_of_kafka_python_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aws_msk_iam_sasl_signer")
    provider = kafka_python(ClientConfig("admin", BASE | OAUTH))["sasl_oauth_token_provider"]
    with pytest.raises(Exception, match=r"AWS' credentials give no token for MSK \(.*dev"):
        provider.token()
