"""S3, and services of its protocol, as a store.

Decided: Amazon's client for Python (botocore), not Arrow's file system, because Arrow's knows no server-side encryption
by request, no size of parts and no way to find uploads that a killed process left open. Loses: one more dependency;
reads go through Python, with one request for each range.
"""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from headrace.config.values import without_login
from headrace.config.worker.allowed_hosts import HostUnknown
from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores.connected import ConnectedStore
from headrace.connectors.hdfs.stores.range_reader import by_ranges
from headrace.connectors.hdfs.stores.s3_client import opened_client, refuse_amazon
from headrace.connectors.hdfs.stores.s3_errors import MISSING, NO_BUCKET, TAKEN, code_of, error_of
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.connectors.hdfs.stores.store import Entry, checked_path
from headrace.plugins.errors import RetriableError

_MOST_DELETED: Final = 1_000
"""The most objects that one request deletes."""

log = logging.getLogger(__name__)


class S3Store(ConnectedStore[Any]):
    """The objects of a bucket whose keys begin with the URL's path."""

    renames: ClassVar[bool] = False

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__()
        parts = urlsplit(settings.url)
        self._settings = settings.s3
        self._hosts = settings.hosts
        self._bucket = parts.netloc.rpartition("@")[2]
        if not self._settings.endpoint:
            refuse_amazon(self._bucket, self._settings.region, self._hosts)
        root = unquote(parts.path).strip("/")
        self._root = f"{root}/" if root else ""
        self.url = f"s3://{self._bucket}/{root}".rstrip("/")

    def entries(self, folder: str) -> list[Entry]:
        """Return the objects and the common prefixes of keys up to the next "/"."""
        found: list[Entry] = []
        for page in self._pages(folder, Delimiter="/"):
            folders = (self._path(one["Prefix"]).rstrip("/") for one in page.get("CommonPrefixes", ()))
            found += (Entry(path, True, 0, 0) for path in folders)
            found += self._files(page)
        return found

    def beginning_with(self, path: str) -> list[Entry]:
        """Return the objects by one listing of their prefix."""
        page = self._ask(f"list '{path}' in", "list_objects_v2", Prefix=self._key(path), Delimiter="/")
        return list(self._files(page))

    def walk(self, folder: str) -> Iterator[Entry]:
        """Yield all objects below, in pages of 1,000."""
        for page in self._pages(folder):
            yield from self._files(page)

    def exists(self, path: str) -> bool:
        """True if there is such an object, or one below."""
        if path and self._head(path) is not None:
            return True
        for page in self._pages(path, MaxKeys=1):
            return not path or bool(page.get("Contents"))
        return False

    def create(self, path: str) -> None:
        """Create an empty object, by a conditional write."""
        self._ask(f"create '{path}' in", "put_object", Key=self._key(path), IfNoneMatch="*", **self._how_written())

    def upload(self, local: str, path: str) -> None:
        """Put the file as one object, in parts if it is large; readers see it whole or not at all."""
        key = self._key(path)
        with open(local, "rb") as file:
            if os.fstat(file.fileno()).st_size > self._settings.part_bytes:
                self._upload_parts(file, path, key)
            else:
                self._ask(f"write '{path}' in", "put_object", Key=key, Body=file, **self._how_written())

    def delete(self, path: str) -> None:
        """Delete the object and all below."""
        self._ask(f"delete '{path}' in", "delete_object", Key=self._key(path))
        keys = [self._root + entry.path for entry in self.walk(path)]
        for first in range(0, len(keys), _MOST_DELETED):
            objects = [{"Key": key} for key in keys[first : first + _MOST_DELETED]]
            done = self._ask(f"delete '{path}' in", "delete_objects", Delete={"Objects": objects, "Quiet": True})
            for failed in done.get("Errors", ()):
                text = f"Could not delete '{self._path(failed['Key'])}' in {self.url}: {failed.get('Message')}"
                raise RetriableError(f"{text} ({failed.get('Code')}); it is tried again.")

    def open(self, path: str) -> pa.NativeFile:
        """Open the present version of the object."""
        found = self._head(path)
        if found is None:
            raise FileNotFoundError(f"'{path}' in {self.url}")
        return by_ranges(found["ContentLength"], partial(self._read, path, found["ETag"]))

    def abort_uploads(self, folder: str, is_meant: Callable[[str], bool]) -> int:
        """Abort uploads in parts that a killed process left open, if the credentials allow to see them.

        Errors: RetriableError; StoreError if there is no such bucket.
        """
        begun = 0
        try:
            for upload in self._open_uploads(self._beginning(folder)):
                if is_meant(self._path(upload["Key"])):
                    self._abort(upload["Key"], upload["UploadId"])
                    begun += 1
        except StoreError as error:
            if code_of(error.__cause__) == NO_BUCKET:
                raise
            log.warning("Uploads that were left open stay in %s; let its lifecycle abort them. %s", self.url, error)
        return begun

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _client(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = opened_client(self._settings, self._hosts)
            return self._opened

    def _key(self, path: str) -> str:
        return self._root + checked_path(path)

    def _path(self, key: str) -> str:
        return key.removeprefix(self._root)

    def _beginning(self, folder: str) -> str:
        return f"{self._key(folder)}/" if folder else self._root

    def _pages(self, folder: str, **how: Any) -> Iterator[Mapping[str, Any]]:
        asked = {"Prefix": self._beginning(folder), **how}
        while True:
            page = self._ask(f"list '{folder}' in", "list_objects_v2", **asked)
            yield page
            if not page.get("IsTruncated"):
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def _files(self, page: Mapping[str, Any]) -> Iterator[Entry]:
        for found in page.get("Contents", ()):
            if not found["Key"].endswith("/"):  # other tools' sign of an empty folder
                modified_ms = int(found["LastModified"].timestamp() * 1000)
                yield Entry(self._path(found["Key"]), False, found["Size"], modified_ms)

    def _head(self, path: str) -> Mapping[str, Any] | None:
        try:
            return self._ask(f"look at '{path}' in", "head_object", Key=self._key(path), **self._customer_key())
        except FileNotFoundError:
            return None

    def _read(self, path: str, etag: str, offset: int, length: int) -> bytes:
        asked = {"Range": f"bytes={offset}-{offset + length - 1}", "IfMatch": etag, **self._customer_key()}

        def read() -> bytes:
            body: bytes = self._client().get_object(Bucket=self._bucket, Key=self._key(path), **asked)["Body"].read()
            return body

        try:
            found: bytes = self._meant(f"read '{path}' in", read)
            return found
        except FileExistsError:  # the answer to IfMatch
            raise RetriableError(
                f"'{path}' in {self.url} was overwritten while it was read; it is tried again."
            ) from None

    def _upload_parts(self, file: Any, path: str, key: str) -> None:
        doing, customer_key = f"write '{path}' in", self._customer_key()
        upload = self._ask(doing, "create_multipart_upload", Key=key, **self._how_written())["UploadId"]
        try:
            parts: list[dict[str, Any]] = []
            while data := file.read(self._settings.part_bytes):
                number = len(parts) + 1
                part = {"Key": key, "UploadId": upload, "PartNumber": number, "Body": data, **customer_key}
                parts.append({"PartNumber": number, "ETag": self._ask(doing, "upload_part", **part)["ETag"]})
            whole = {"Key": key, "UploadId": upload, "MultipartUpload": {"Parts": parts}, **customer_key}
            self._ask(doing, "complete_multipart_upload", **whole)
        except BaseException:
            with suppress(RetriableError, StoreError):  # the error that led here says more
                self._abort(key, upload)
            raise

    def _open_uploads(self, beginning: str) -> Iterator[Mapping[str, Any]]:
        asked: dict[str, Any] = {"Prefix": beginning}
        while True:
            page = self._ask("list the open uploads of", "list_multipart_uploads", **asked)
            yield from page.get("Uploads", ())
            if not page.get("IsTruncated"):
                return
            asked |= {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def _abort(self, key: str, upload: str) -> None:
        with suppress(FileNotFoundError):  # another one was quicker
            self._ask(f"abort an upload of '{self._path(key)}' to", "abort_multipart_upload", Key=key, UploadId=upload)

    def _how_written(self) -> dict[str, str | bytes]:
        wanted = {
            "ServerSideEncryption": self._settings.encryption,
            "SSEKMSKeyId": self._settings.encryption_key,
            "ACL": self._settings.acl,
        }
        return {**{name: value for name, value in wanted.items() if value}, **self._customer_key()}

    def _customer_key(self) -> dict[str, str | bytes]:
        key = self._settings.customer_key
        if key is None:
            return {}
        return {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": base64.b64decode(key.value)}

    def _ask(self, doing: str, operation: str, **asked: Any) -> Mapping[str, Any]:
        def ask() -> Mapping[str, Any]:
            found: Mapping[str, Any] = getattr(self._client(), operation)(Bucket=self._bucket, **asked)
            return found

        answer: Mapping[str, Any] = self._meant(doing, ask)
        return answer

    def _meant(self, doing: str, ask: Callable[[], Any]) -> Any:
        """Return the answer. Errors: as Store's methods; FileNotFoundError, FileExistsError."""
        from botocore.exceptions import BotoCoreError, ClientError

        where = f"{doing} {self.url}"
        try:
            return ask()
        except ClientError as error:
            code = code_of(error)
            if code in MISSING:
                raise FileNotFoundError(f"{where}: {code}") from error
            if code in TAKEN:
                raise FileExistsError(f"{where}: {code}") from error
            raise error_of(self._named(where), error) from error
        except (BotoCoreError, ValueError) as error:
            raise error_of(self._named(where), error) from error
        except HostUnknown as error:
            raise RetriableError(f"Could not {self._named(where)}: {error} It is tried again.") from error

    def _named(self, where: str) -> str:
        endpoint = without_login(self._settings.endpoint)
        return f"{where} at {endpoint}" if endpoint else where
