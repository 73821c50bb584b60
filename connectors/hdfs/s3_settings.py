"""The settings of S3 and of stores that speak its protocol, by the names of Confluent's S3 connector."""

from __future__ import annotations

from typing import Any, Final

from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import REQUIRED, Offer, Setting, Type
from headrace.config.validators import Check, NonEmpty, OneOf, OrNull, Range
from headrace.config.values import invalid

_CANNED_ACLS: Final = (
    "private",
    "public-read",
    "public-read-write",
    "authenticated-read",
    "log-delivery-write",
    "bucket-owner-read",
    "bucket-owner-full-control",
    "aws-exec-read",
)
_CREDENTIALS: Final = (
    "DefaultAWSCredentialsProviderChain",
    "DefaultCredentialsProvider",
    "AnonymousCredentialsProvider",
)
_LEAST_PART: Final = 5 * 1024 * 1024


def _objection_to_credentials(name: str, value: Any) -> str | None:
    if not value or value.rpartition(".")[2] in _CREDENTIALS:
        return None
    why = "a Java class cannot be run here; set aws.access.key.id and its secret, or neither for the usual chain"
    return invalid(name, value, why)


def _objection_to_acceleration(name: str, value: Any) -> str | None:
    return invalid(name, value, "Amazon's transfer acceleration is not served") if value else None


def bucket_settings(group: SettingGroup) -> tuple[Setting, ...]:
    """The bucket and the endpoint, by the names of Confluent's S3 connector."""
    return (
        group("s3.bucket.name", Type.STRING, REQUIRED, HIGH, LONG, "S3 Bucket", "The bucket.", NonEmpty()),
        group(
            "store.url",
            Type.STRING,
            None,
            LOW,
            LONG,
            "Store URL",
            "The endpoint of a store that speaks S3's protocol, such as http://minio:9000; empty: Amazon's.",
        ),
    )


def endpoint_setting(group: SettingGroup) -> Setting:
    """The endpoint if `store.url` names the bucket."""
    return group(
        "s3.endpoint",
        Type.STRING,
        None,
        MEDIUM,
        LONG,
        "S3 Endpoint",
        "With an s3:// store.url: the URL of a store that speaks S3's protocol, such as http://minio:9000; empty: "
        "Amazon's.",
    )


def s3_settings(group: SettingGroup) -> tuple[Setting, ...]:
    """The settings of S3's access, writes and proxy."""
    return (*_s3_access(group), *_s3_writes(group), *_s3_proxy(group))


def _s3_access(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group("s3.region", Type.STRING, "us-west-2", MEDIUM, MID, "AWS region", "The region of the bucket."),
        group(
            "aws.access.key.id",
            Type.STRING,
            "",
            HIGH,
            MID,
            "AWS Access Key ID",
            "With aws.secret.access.key: whose requests they are. Empty: environment, profile or role of the machine.",
        ),
        group(
            "aws.secret.access.key",
            Type.PASSWORD,
            "",
            HIGH,
            MID,
            "AWS Secret Access Key",
            "The secret of aws.access.key.id. A variable such as ${file:/secrets/s3:key} keeps it out of Kafka.",
        ),
        group(
            "s3.credentials.provider.class",
            Type.CLASS,
            "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
            LOW,
            LONG,
            "AWS Credentials Provider Class",
            "Amazon's default chain, or its AnonymousCredentialsProvider for requests without a signature.",
            Check(_objection_to_credentials, "Amazon's default chain, or its AnonymousCredentialsProvider"),
            is_plugin=False,
        ),
        group(
            "s3.path.style.access.enabled",
            Type.BOOLEAN,
            True,
            LOW,
            SHORT,
            "S3 Path Style Access",
            "Whether the bucket's name stands in the path of requests rather than in the host.",
        ),
        group(
            "s3.wan.mode",
            Type.BOOLEAN,
            False,
            MEDIUM,
            SHORT,
            "S3 accelerated endpoint",
            "Amazon's transfer acceleration, which is not served here: true is refused.",
            Check(_objection_to_acceleration, "false"),
        ),
    )


def _s3_writes(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group(
            "s3.part.size",
            Type.INT,
            26_214_400,
            HIGH,
            SHORT,
            "S3 Part Size",
            "The size of the parts that larger objects are uploaded in, in bytes.",
            Range(_LEAST_PART, 2**31 - 1),
        ),
        group(
            "s3.part.retries",
            Type.INT,
            3,
            MEDIUM,
            SHORT,
            "S3 Part Upload Retries",
            "How often a request is tried again before the batch is.",
            Range(0),
        ),
        group(
            "s3.retry.backoff.ms",
            Type.LONG,
            200,
            LOW,
            SHORT,
            "Retry Backoff (ms)",
            "Accepted for configs of Confluent's connector. Amazon's client chooses its pauses itself.",
            Range(0),
        ),
        group(
            "s3.ssea.name",
            Type.STRING,
            "",
            LOW,
            MID,
            "S3 Server Side Encryption Algorithm",
            "How the store encrypts objects: AES256 or aws:kms; empty: as the bucket says.",
            OneOf("", "AES256", "aws:kms"),
            recommender=Offer(("", "AES256", "aws:kms")),
        ),
        group(
            "s3.sse.customer.key",
            Type.PASSWORD,
            None,
            LOW,
            LONG,
            "S3 Server Side Encryption Customer-Provided Key (SSE-C)",
            "A key of 256 bits in Base64 that the store encrypts objects with and does not keep.",
        ),
        group(
            "s3.sse.kms.key.id",
            Type.STRING,
            "",
            LOW,
            LONG,
            "S3 Server Side Encryption Key",
            "With aws:kms: the key's id; empty: Amazon's own key.",
        ),
        group(
            "s3.acl.canned",
            Type.STRING,
            None,
            LOW,
            MID,
            "S3 Canned ACL",
            "Who may read the objects, by one of Amazon's names for it.",
            OrNull(OneOf(*_CANNED_ACLS)),
            recommender=Offer(_CANNED_ACLS),
        ),
        group(
            "s3.http.send.expect.continue",
            Type.BOOLEAN,
            True,
            LOW,
            SHORT,
            "S3 HTTP Send Uses Expect Continue",
            "Accepted for configs of Confluent's connector. Amazon's client decides itself.",
        ),
    )


def _s3_proxy(group: SettingGroup) -> tuple[Setting, ...]:
    return (
        group(
            "s3.proxy.url",
            Type.STRING,
            "",
            LOW,
            LONG,
            "S3 Proxy Settings",
            "The HTTP proxy that requests go through, as http://host:port.",
        ),
        group("s3.proxy.user", Type.STRING, None, LOW, MID, "S3 Proxy User", "The proxy's user."),
        group("s3.proxy.password", Type.PASSWORD, None, LOW, MID, "S3 Proxy Password", "That user's password."),
    )
