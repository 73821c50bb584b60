"""A server that speaks S3's protocol for tests: moto's, as a process on a free loopback port, asking for signatures.

It keeps objects in memory: what it stored is gone with its process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from botocore.session import Session

from headrace.config.values import Password
from headrace.connectors.hdfs.stores.settings import S3Settings
from headrace.worker.machine import processes
from tests.held_ports import held_port

REGION = "eu-central-1"

READING = ("s3:Get*", "s3:List*")
"""Of an S3 user who may only read."""

_MAIN = "from moto.server import main; main()"
_FREE_ACTIONS = 6
"""So many requests are answered without a look at their signature: those that create users."""
_START_S = 180.0


class S3Server:
    """One server; with `access_key` and `secret_key` one may do all, with `reader` read unless told otherwise."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "s3.log"
        self.port = held_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.access_key = self.secret_key = ""
        self.reader = ("", "")

    @property
    def endpoint(self) -> str:
        """For `store.url` of the S3 sink, or `s3.endpoint`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        """True if its process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, empty, and wait until it answers."""
        command = [sys.executable, "-W", "ignore", "-c", _MAIN, "-H", "127.0.0.1", "-p", str(self.port)]
        env = {"INITIAL_NO_AUTH_ACTION_COUNT": str(_FREE_ACTIONS), "PATH": "/usr/bin:/bin"}
        self._process = processes.spawn(command, output=self._log, cwd=self._folder, env=env)
        deadline = time.monotonic() + _START_S
        while processes.is_free(self.port):
            assert self.is_running, self._log.read_text()[-2000:]
            assert time.monotonic() < deadline, self._log.read_text()[-2000:]
            time.sleep(0.05)
        self.access_key, self.secret_key = self._user("all", "s3:*", "iam:*")
        self.reader = self._user("reader", *READING)

    def kill(self) -> None:
        """End it as by `kill -9`."""
        if self._process is not None:
            processes.kill(self._process)

    def client(self) -> Any:
        """Amazon's client, for tests."""
        return self._client("s3", self.access_key, self.secret_key)

    def bucket(self, name: str = "") -> str:
        """The name of a new bucket."""
        name = name or f"b-{uuid.uuid4()}"
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        return name

    def allow_reader(self, *actions: str) -> None:
        """Let `reader` do these alone from now on."""
        self._allow(self._client("iam", self.access_key, self.secret_key), "reader", *actions)

    def settings(self, **changes: Any) -> S3Settings:
        """To reach it."""
        login = {"access_key": self.access_key, "secret_key": Password(self.secret_key)}
        return S3Settings(**{"region": REGION, "endpoint": self.endpoint, "retries": 0, **login, **changes})

    def _client(self, service: str, access_key: str, secret_key: str) -> Any:
        keys = {"aws_access_key_id": access_key, "aws_secret_access_key": secret_key}
        return Session().create_client(service, region_name=REGION, endpoint_url=self.endpoint, **keys)

    def _user(self, name: str, *actions: str) -> tuple[str, str]:
        iam = self._client("iam", "any", "any")
        iam.create_user(UserName=name)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        self._allow(iam, name, *actions)
        return key["AccessKeyId"], key["SecretAccessKey"]

    @staticmethod
    def _allow(iam: Any, name: str, *actions: str) -> None:
        statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_user_policy(UserName=name, PolicyName="rights", PolicyDocument=policy)
