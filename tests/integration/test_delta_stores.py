"""Delta tables in S3: made, written, fenced, and what is said of a store that refuses or does not answer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.connectors.lake.errors import LakeError
from headrace.plugins.errors import RetriableError
from headrace.plugins.testkit import SinkDrive
from tests.integration.s3_server import REGION, S3Server
from tests.unit.connectors.lake.delta_rig import DeltaRig, delta_rows


class S3Rig(DeltaRig):
    """Lines into a table in a bucket of its own."""

    def __init__(self, folder: Path, server: S3Server, **storage: str) -> None:
        self.url = f"s3://{server.bucket()}/lake/t"
        self.storage = {
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
            "max_retries": "0",
            **storage,
        }
        given = {f"delta.storage.{name}": value for name, value in self.storage.items()}
        super().__init__(folder, **{"table.path": self.url, **given})

    def table(self) -> pa.Table:
        return DeltaTable(self.url, storage_options=self.storage).to_pyarrow_table().sort_by("n")


def write(drive: SinkDrive, first: int, end: int) -> None:
    writer = drive.writer()
    writer.write(delta_rows([(number, "x", False) for number in range(first, end)]))
    drive.task.commit([writer.finish()])


@pytest.mark.parametrize("settings", [{}, {"write.mode": "upsert", "id.columns": "n"}], ids=["append", "upsert"])
def test_a_table_in_s3(tmp_path: Path, s3_server: S3Server, settings: dict[str, str]) -> None:
    rig = S3Rig(tmp_path, s3_server)
    rig.settings |= settings
    one, other = SinkDrive(rig), SinkDrive(rig)
    write(one, 0, 3)
    held = other.writer()
    held.write(delta_rows([(number, "x", False) for number in range(3, 5)]))
    write(one, 3, 6)
    with pytest.raises(RetriableError, match="Another task has written records"):
        other.task.commit([held.finish()])
    assert rig.table()["n"].to_pylist() == list(range(6))


def test_a_store_that_refuses_fails_the_task_without_its_secret(tmp_path: Path, s3_server: S3Server) -> None:
    rig = S3Rig(tmp_path, s3_server, AWS_SECRET_ACCESS_KEY="no-such-secret")
    with pytest.raises(LakeError, match=r"refuses: .* Check table\.path and delta\.storage") as caught:
        write(SinkDrive(rig), 0, 1)
    assert "no-such-secret" not in str(caught.value)


def test_a_store_that_does_not_answer_is_tried_again(tmp_path: Path, s3_server: S3Server) -> None:
    rig = S3Rig(tmp_path, s3_server, AWS_ENDPOINT_URL="http://127.0.0.1:9")
    with pytest.raises(RetriableError, match="does not answer"):
        write(SinkDrive(rig), 0, 1)
