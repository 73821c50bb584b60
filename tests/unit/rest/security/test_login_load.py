"""A thousand wrong passwords a second: who has logged in, who logs in, and /health are answered as before."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx

from headrace.worker.model import Health
from tests.unit.rest.security.entered import entered
from tests.unit.rest.security.test_users import hashed

A_SECOND = 1_000
SECONDS = 2.0
ENOUGH_S = 1.0
"""A check of all would take 0.2 s each, ten minutes together; the machine may be busy with other tests."""


def test_wrong_passwords_slow_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"ann={hashed('secret', 12)}\nbob={hashed('hunter2', 12)}\n")
    settings = {"rest.basic.auth.users.file": str(path), "rest.login.open.paths": "/health"}
    health = {"health": Health("healthy", "fine")}
    with entered(settings, health) as (client, _):
        assert client.get("/connectors", auth=("ann", "secret")).status_code == 200
        flood = flooding(client, A_SECOND)
        took: dict[str, list[float]] = {"ann": [], "health": []}
        while flood.poll() is None:
            for name, path_, auth in (("ann", "/connectors", ("ann", "secret")), ("health", "/health", None)):
                took[name].append(answered_in(client, path_, auth))
            time.sleep(0.02)
        statuses = json.loads(flood.communicate()[0])
    for name, seconds in took.items():
        assert statistics.median(seconds) < ENOUGH_S, (name, seconds)
    assert set(statuses) == {"401", "429"}
    # Few were hashed; the others were told to come again.
    assert statuses["429"] > statuses["401"], statuses


def flooding(client: httpx.Client, rate: int) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("flood.py")
    command = [sys.executable, str(script), str(client.base_url.port), str(rate), str(SECONDS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def answered_in(client: httpx.Client, path: str, auth: tuple[str, str] | None) -> float:
    began = time.monotonic()
    assert client.get(path, auth=auth).status_code == 200
    return time.monotonic() - began


def test_from_another_address_a_first_login_waits_for_few(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"ann={hashed('secret', 12)}\n")
    with entered({"rest.basic.auth.users.file": str(path)}) as (client, _):
        flood = flooding(client, 200)
        while flood.poll() is None and client.get("/connectors", auth=("ann", "mine")).status_code != 429:
            continue  # until wrong ones wait
        elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(base_url=client.base_url, transport=elsewhere, timeout=60) as other:
            answer = other.get("/connectors", auth=("ann", "secret"))
        assert answer.status_code == 200
        flood.communicate()
