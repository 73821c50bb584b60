"""Errors of S3: their texts, and their meaning to the worker."""

from __future__ import annotations

import pytest
from botocore import exceptions
from botocore.exceptions import ClientError

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores.s3_errors import error_of
from headrace.plugins.errors import RetriableError


@pytest.mark.parametrize(
    ("code", "status", "kind", "advice"),
    [
        ("NoSuchBucket", 404, StoreError, "Create the bucket"),
        ("AccessDenied", 403, StoreError, "s3:PutObject"),
        ("403", 403, StoreError, "s3:PutObject"),
        ("SignatureDoesNotMatch", 403, StoreError, r"aws\.secret\.access\.key"),
        ("PermanentRedirect", 301, StoreError, r"s3\.region"),
        ("InvalidArgument", 400, StoreError, "Correct the settings"),
        ("ExpiredToken", 400, RetriableError, "expired"),
        ("SlowDown", 503, RetriableError, "fewer requests"),
        ("XMinioStorageFull", 507, RetriableError, "Make room"),
        ("InternalError", 500, RetriableError, "answers"),
        ("TooManyRequests", 429, RetriableError, "answers"),
    ],
)
def test_an_answer(code: str, status: int, kind: type[Exception], advice: str) -> None:
    told = {"Error": {"Code": code, "Message": "It says."}, "ResponseMetadata": {"HTTPStatusCode": status}}
    found = error_of("write 'a' in s3://b", ClientError(told, "PutObject"))
    assert type(found) is kind
    with pytest.raises(kind, match=rf"^Could not write 'a' in s3://b: It says \({code}\)\. .*{advice}"):
        raise found


@pytest.mark.parametrize(
    ("error", "kind", "advice"),
    [
        (exceptions.EndpointConnectionError(endpoint_url="http://a"), RetriableError, "endpoint"),
        (exceptions.ReadTimeoutError(endpoint_url="http://a"), RetriableError, "endpoint"),
        (exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2), RetriableError, "endpoint"),
        (exceptions.ProxyConnectionError(proxy_url="http://u:secret@p:1", error="x"), RetriableError, "endpoint"),
        (exceptions.SSLError(endpoint_url="https://a", error="self-signed"), StoreError, "AWS_CA_BUNDLE"),
        (exceptions.NoCredentialsError(), StoreError, r"aws\.access\.key\.id"),
        (ValueError("Invalid endpoint: http://u:secret@x:y"), StoreError, "Correct the settings"),
    ],
)
def test_no_answer(error: Exception, kind: type[Exception], advice: str) -> None:
    found = error_of("write 'a' in s3://b", error)
    assert "secret@" not in str(found)
    with pytest.raises(kind, match=f"^Could not write 'a' in s3://b: .*{advice}"):
        raise found
