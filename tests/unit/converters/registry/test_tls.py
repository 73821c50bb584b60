"""The client's TLS: which stores it reads, whom it trusts, which key it sends; against a server with real TLS."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from headrace.config.settings import ConfigError
from headrace.converters.avro.references import standing_alone
from headrace.converters.registry.client import SchemaRegistry
from headrace.plugins.contracts import RetriableError
from tests.unit.converters.registry.scripted_registry import Identity, identity, scripted

SERVER, CLIENT = identity("server"), identity("client")
PASSWORD = serialization.BestAvailableEncryption(b"s3cret")


def ask(url: str, **ssl: str) -> int:
    named = {f"schema.registry.ssl.{key.replace('_', '.')}": value for key, value in ssl.items()}
    with closing(SchemaRegistry({"schema.registry.url": url, "max.retries": "0", **named}, standing_alone)) as registry:
        return registry.register("s", '"int"')


def written(path: Path, content: bytes | str) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def trust_store(who: Identity) -> bytes:
    """As Java's keytool writes one today."""
    return pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(who.certificate, b"ca")], PASSWORD)


def test_every_form_of_trust_store_is_read(tmp_path: Path) -> None:
    with scripted((200, {"id": 7}), context=SERVER.server_context(tmp_path)) as played:
        pem = written(tmp_path / "ca.pem", SERVER.certificate_pem)
        assert ask(played.url, truststore_location=pem, truststore_type="PEM") == 7
        java = written(tmp_path / "trust.jks", trust_store(SERVER))
        assert ask(played.url, truststore_location=java, truststore_password="s3cret") == 7
        line = SERVER.certificate_pem.replace("\n", "\\n")
        assert ask(played.url, truststore_certificates=line, enabled_protocols="TLSv1.3") == 7


def test_an_untrusted_certificate_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with scripted((200, {"id": 7}), context=SERVER.server_context(tmp_path)) as played:
        with pytest.raises(ConfigError, match=r"certificate is not trusted.*ssl\.truststore\.location"):
            ask(played.url)
        other = played.url.replace("127.0.0.1", "localhost")
        with pytest.raises(ConfigError, match="not trusted: Hostname mismatch"):
            ask(other, truststore_certificates=SERVER.certificate_pem)
        trusting = {"truststore_certificates": SERVER.certificate_pem, "endpoint_identification_algorithm": ""}
        assert ask(other, **trusting) == 7


def test_every_form_of_key_is_sent(tmp_path: Path) -> None:
    context = SERVER.server_context(tmp_path, trusting=CLIENT)
    key = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = CLIENT.key.private_bytes(*key, PASSWORD).decode()
    store = pkcs12.serialize_key_and_certificates(b"me", CLIENT.key, CLIENT.certificate, None, PASSWORD)
    trust = {"truststore_certificates": SERVER.certificate_pem}
    with scripted((200, {"id": 7}), context=context) as played:
        with pytest.raises(RetriableError):
            ask(played.url, **trust)
        p12 = written(tmp_path / "key.p12", store)
        assert ask(played.url, keystore_location=p12, keystore_password="s3cret", **trust) == 7
        pem = written(tmp_path / "key.pem", locked + CLIENT.certificate_pem)
        assert ask(played.url, keystore_location=pem, key_password="s3cret", **trust) == 7
        chain = CLIENT.certificate_pem
        assert ask(played.url, keystore_key=locked, keystore_certificate_chain=chain, key_password="s3cret", **trust)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"truststore_location": "absent"}, r"truststore\.location.*cannot be read: No such file"),
        ({"truststore_location": "old.jks"}, r"cannot be opened: the file is not complete.*truststore\.password"),
        ({"truststore_location": "text"}, "format is not known"),
        ({"truststore_location": "trust.p12", "truststore_password": "wr0ng"}, r"truststore\.password"),
        ({"truststore_certificates": "s3cret"}, "certificates cannot be read"),
        ({"keystore_location": "trust.p12", "keystore_password": "s3cret"}, "no key with a certificate"),
        ({"keystore_location": "key.pem", "key_password": "wr0ng"}, "key cannot be read"),
        ({"keystore_location": "key.pem"}, "key cannot be read"),
        ({"engine_factory_class": "com.example.Factory"}, "names code to load"),
    ],
)
def test_an_unreadable_store_is_reported_without_secrets(
    settings: dict[str, str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "old.jks", b"\xfe\xed\xfe\xed\0\0\0\2")
    written(tmp_path / "text", "hello")
    written(tmp_path / "trust.p12", trust_store(SERVER))
    locked = CLIENT.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, PASSWORD)
    written(tmp_path / "key.pem", locked.decode() + CLIENT.certificate_pem)
    with pytest.raises(ConfigError, match=told) as caught:
        ask("https://127.0.0.1:9", **settings)
    assert "s3cret" not in str(caught.value)
    assert "wr0ng" not in str(caught.value)
