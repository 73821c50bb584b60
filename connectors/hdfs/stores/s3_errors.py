"""The errors of S3 and of its client."""

from __future__ import annotations

from typing import Any, Final

from headrace.config.values import without_login
from headrace.connectors.hdfs.errors import StoreError
from headrace.plugins.errors import RetriableError

MISSING: Final = ("NoSuchKey", "NoSuchUpload", "404", "NotFound")
TAKEN: Final = ("PreconditionFailed", "412")
NO_BUCKET: Final = "NoSuchBucket"

_KEYS: Final = "Correct aws.access.key.id and aws.secret.access.key, or the credentials of the worker's environment"
_REGION: Final = "Set s3.region to the bucket's region"
_REFUSED: Final = {
    NO_BUCKET: "Create the bucket, or correct its name in s3.bucket.name or store.url",
    "InvalidBucketName": "Correct the bucket's name in s3.bucket.name or store.url",
    "AccessDenied": "Grant these credentials s3:ListBucket on the bucket and s3:GetObject, s3:PutObject, "
    "s3:DeleteObject and s3:AbortMultipartUpload on its objects; see the bucket's policy, too, which may ask for an "
    "encryption or an ACL",
    "InvalidAccessKeyId": _KEYS,
    "SignatureDoesNotMatch": _KEYS,
    "InvalidToken": _KEYS,
    "AuthorizationHeaderMalformed": _REGION,
    "PermanentRedirect": _REGION,
    "301": _REGION,
    "RequestTimeTooSkewed": "Set the clock of the worker's machine",
    "AccessControlListNotSupported": "The bucket takes no ACLs: remove s3.acl.canned",
    "NoCredentialsError": "Set aws.access.key.id and aws.secret.access.key, or give the worker credentials by its "
    "environment, a profile or a role of its machine",
    "PartialCredentialsError": _KEYS,
    "SSLError": "See that the endpoint's certificate is one that this machine trusts (AWS_CA_BUNDLE names others)",
    "InvalidRequest": "Set s3.sse.customer.key to what the object was written with, and correct s3.ssea.name",
}
_REFUSED_BY: Final = {"403": "AccessDenied", "Forbidden": "AccessDenied", "AllAccessDisabled": "AccessDenied"}
_RETRIABLE: Final = {
    "ExpiredToken": "The credentials have expired: see to new ones",
    "SlowDown": "The store wants fewer requests: use larger files (flush.size) or fewer tasks",
    "QuotaExceeded": "Make room in the store, or raise its quota",
    "XMinioStorageFull": "Make room in the store, or raise its quota",
    "XMinioAdminBucketQuotaExceeded": "Make room in the store, or raise its quota",
    "InsufficientStorage": "Make room in the store, or raise its quota",
    "ConditionalRequestConflict": "Another one writes this object",
    "OperationAborted": "Another one changes the bucket",
}
_PASSING: Final = ("CredentialRetrievalError", "MetadataRetrievalError", "IncompleteReadError")
_AWAY: Final = "See that the endpoint is right and answers"


def code_of(error: Any) -> str:
    """Return S3's code of an error of its client; "" if no answer came."""
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))


def error_of(doing: str, error: Any) -> Exception:
    """Return the worker's error for an error of botocore; `doing`: the failed request, in words."""
    told = getattr(error, "response", None)
    if told is None:
        return _without_answer(doing, error)
    code = code_of(error)
    status = int(told.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    message = str(told.get("Error", {}).get("Message", "")).rstrip(".")
    text = f"Could not {doing}: {message or code} ({code})."
    advice = _REFUSED.get(_REFUSED_BY.get(code, code))
    if advice is None and (code in _RETRIABLE or status >= 500 or status in (408, 409, 429)):
        return RetriableError(f"{text} {_RETRIABLE.get(code, _AWAY)}; it is tried again.")
    return StoreError(f"{text} {advice or 'Correct the settings of the store'}; then restart the task.")


def _without_answer(doing: str, error: Exception) -> Exception:
    """The error of a request without answer, or one that the client did not even send."""
    from botocore.exceptions import ConnectionError, HTTPClientError

    kind = type(error).__name__
    text = f"Could not {doing}: {without_login(str(error)).rstrip('.')}."
    if kind in _REFUSED:
        return StoreError(f"{text} {_REFUSED[kind]}; then restart the task.")
    if isinstance(error, HTTPClientError | ConnectionError) or kind in _PASSING:
        return RetriableError(f"{text} {_AWAY}; it is tried again.")
    return StoreError(f"{text} Correct the settings of the store; then restart the task.")
