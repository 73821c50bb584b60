"""The library's errors as those of a sink: what is tried again, and what is not."""

from __future__ import annotations

import pytest
from deltalake.exceptions import DeltaError

from headrace.connectors.lake.delta.library import translated
from headrace.connectors.lake.errors import LakeError
from headrace.plugins.errors import RetriableError

PUT = "Error performing PUT http://s3/b/t/part-0.parquet in 1s - Server returned non-2xx status code"
READ = "Parquet error: Failed to fetch metadata for file t/part-0.parquet: Object Store error: Generic S3 error"


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (OSError(f"Generic S3 error {PUT}: 503 Service Unavailable: busy"), RetriableError, "does not answer"),
        (DeltaError(f"Failed to parse parquet: External: Generic S3 error: {PUT}: 503 busy"), RetriableError, "answer"),
        (DeltaError(f"Generic DeltaTable error: {READ}: error sending request"), RetriableError, "does not answer"),
        (DeltaError("Generic LocalFileSystem error: No space left on device"), RetriableError, "No space left"),
        (DeltaError(f"Failed to parse parquet: External: Generic S3 error: {PUT}: 403 Forbidden"), LakeError, "Check"),
        (DeltaError("Generic DeltaTable error: Unsupported table features required: []"), LakeError, "Mend the table"),
    ],
)
def test_a_store_that_does_not_answer_is_tried_again(error: Exception, kind: type[Exception], text: str) -> None:
    """Its errors are the library's own if they come while data files are read or written."""
    with pytest.raises(kind, match=text), translated("s3://b/t"):
        raise error
