"""A server that speaks S3's protocol as a store."""

from __future__ import annotations

import base64
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.config.values import Password
from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.connectors.hdfs.stores.store import Store
from headrace.plugins.errors import RetriableError
from tests.integration.s3_server import S3Server
from tests.store_behaviour import StoreBehaviour, local_file, text_of

PART = 5 * 1024 * 1024


def store_at(server: S3Server, url: str, **changes: Any) -> Store:
    """A store of this server."""
    return store_of(StoreSettings(url, s3=server.settings(**changes)))


def large_file(folder: Path) -> str:
    """A file of three parts."""
    path = folder / "large"
    path.write_bytes(os.urandom(2 * PART + 1))
    return str(path)


class TestS3(StoreBehaviour):
    """All that a store without renames does."""

    @pytest.fixture
    def store(self, s3_server: S3Server) -> Iterator[Store]:
        store = store_at(s3_server, f"s3a://{s3_server.bucket()}/below/this")
        assert not store.renames
        yield store
        store.close()


def test_a_bucket_may_be_the_root(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    store = store_at(s3_server, f"s3://{bucket}")
    store.upload(local_file(tmp_path), "a/b")
    assert [entry.path for entry in store.walk("")] == ["a/b"]
    assert s3_server.client().get_object(Bucket=bucket, Key="a/b")["Body"].read() == b"some text"


def test_a_large_file_goes_in_parts(s3_server: S3Server, tmp_path: Path) -> None:
    bucket, local = s3_server.bucket(), large_file(tmp_path)
    store = store_at(s3_server, f"s3://{bucket}", part_bytes=PART)
    store.upload(local, "a")
    assert s3_server.client().head_object(Bucket=bucket, Key="a")["ETag"].endswith('-3"')
    with store.open("a") as file:
        assert file.read() == Path(local).read_bytes()


def test_an_upload_that_fails_leaves_nothing(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3_server.bucket()
    store = store_at(s3_server, f"s3://{bucket}", part_bytes=PART)
    asked = store._ask  # type: ignore[attr-defined]

    def fail(doing: str, operation: str, **how: Any) -> Any:
        if operation == "upload_part" and how["PartNumber"] == 3:
            raise RetriableError("away")
        return asked(doing, operation, **how)

    monkeypatch.setattr(store, "_ask", fail)
    with pytest.raises(RetriableError, match="away"):
        store.upload(large_file(tmp_path), "a")
    assert not store.exists("a")
    assert "Uploads" not in s3_server.client().list_multipart_uploads(Bucket=bucket)


def test_what_a_killed_process_left_open_is_aborted(s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    store = store_at(s3_server, f"s3://{bucket}/root")
    for key in ("root/t/p=0/t+0+5", "root/t/p=0/t+1+5", "root/other/o+0+1"):
        s3_server.client().create_multipart_upload(Bucket=bucket, Key=key)
    assert store.abort_uploads("t", lambda path: path.endswith("/t+0+5")) == 1
    left = s3_server.client().list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert sorted(upload["Key"] for upload in left) == ["root/other/o+0+1", "root/t/p=0/t+1+5"]


def test_a_missing_bucket_is_told_at_the_start(s3_server: S3Server) -> None:
    with pytest.raises(StoreError, match=r"s3://b-not-there .*NoSuchBucket.*Create the bucket"):
        store_at(s3_server, "s3://b-not-there").abort_uploads("t", lambda _: True)


def test_encryption_and_acl_reach_the_store(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    changes = {"encryption": "aws:kms", "encryption_key": "the-key", "acl": "bucket-owner-full-control"}
    store = store_at(s3_server, f"s3://{bucket}", part_bytes=PART, **changes)
    store.upload(local_file(tmp_path), "small")
    store.upload(large_file(tmp_path), "large")
    for key in ("small", "large"):
        found = s3_server.client().head_object(Bucket=bucket, Key=key)
        assert (found["ServerSideEncryption"], found["SSEKMSKeyId"]) == ("aws:kms", "the-key")


def test_a_customers_key_is_used_to_write_and_to_read(s3_server: S3Server, tmp_path: Path) -> None:
    key = Password(base64.b64encode(os.urandom(32)).decode())
    store = store_at(s3_server, f"s3://{s3_server.bucket()}", part_bytes=PART, customer_key=key)
    store.upload(local_file(tmp_path), "small")
    store.upload(large_file(tmp_path), "large")
    assert text_of(store, "small") == "some text"
    with store.open("large") as file:
        assert file.size() == 2 * PART + 1


def test_no_bucket_is_told(s3_server: S3Server, tmp_path: Path) -> None:
    store = store_at(s3_server, "s3://no-such-bucket")
    with pytest.raises(StoreError, match=r"s3://no-such-bucket at http://127.*NoSuchBucket.*Create the bucket"):
        store.upload(local_file(tmp_path), "a")
    with pytest.raises(StoreError, match="NoSuchBucket"):
        store.entries("a")


def test_a_wrong_key_is_told_and_not_shown(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    for changes in ({"access_key": "AKIAUNKNOWN"}, {"secret_key": Password("the-wrong-secret")}):
        store = store_at(s3_server, f"s3://{bucket}", **changes)
        with pytest.raises(StoreError, match=r"aws\.secret\.access\.key") as raised:
            store.upload(local_file(tmp_path), "a")
        assert "the-wrong-secret" not in f"{raised.value} {store!r} {vars(store)}"


def test_missing_rights_are_told(s3_server: S3Server, tmp_path: Path) -> None:
    access_key, secret = s3_server.reader
    bucket = s3_server.bucket()
    store = store_at(s3_server, f"s3://{bucket}", access_key=access_key, secret_key=Password(secret))
    assert store.entries("") == []
    with pytest.raises(StoreError, match=r"AccessDenied.*s3:PutObject"):
        store.upload(local_file(tmp_path), "a")


def test_no_credentials_at_all_are_told(s3_server: S3Server, tmp_path: Path) -> None:
    code = "import sys, pickle; pickle.load(sys.stdin.buffer).create('a')"
    store = store_at(s3_server, "s3://bucket", access_key="", secret_key=None)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(store), env=env, capture_output=True, timeout=60, check=False
    )
    assert "Unable to locate credentials. Set aws.access.key.id" in done.stderr.decode()


def test_a_server_that_is_away_passes(s3_server: S3Server, tmp_path: Path) -> None:
    store = store_at(s3_server, f"s3://{s3_server.bucket()}")
    s3_server.kill()
    with pytest.raises(RetriableError, match=r"Could not write 'a' in s3://b-.*Could not connect.*tried again"):
        store.upload(local_file(tmp_path), "a")
