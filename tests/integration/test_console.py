"""The console in a real browser: a whole story on a real worker, login and rights, attacks."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.browser import WITHIN_MS, chromium, complaints, faults, opened
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.worker_process import SINK, SOURCE, Topic, WorkerProcess, envelope, eventually, lines_of
from tests.unit.rest.conftest import Worker, made_workers

WITHIN_S: Final = 250
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
EVIL: Final = "<script>alert('x')</script><img src=x onerror=alert(1)>"
FILE: Final = {"connector.class": SOURCE, "file": "f", "topic": "t"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=WITHIN_MS)
    with chromium() as running:
        yield running


@pytest.fixture
def workers() -> Iterator[Callable[..., Worker]]:
    """Makes workers whose tasks run in name only."""
    with made_workers() as make:
        yield make


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def change(page: Page, setting: str, value: str) -> None:
    """Fills the field of a setting, also of one that is folded away."""
    field = page.locator(f'[name="c.{setting}"]')
    field.evaluate(
        "one => { for (let at = one; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true }"
    )
    if field.evaluate("one => one.tagName") == "SELECT":
        field.select_option(value)
    else:
        field.fill(value)


@pytest.mark.kafka
@pytest.mark.spark
def test_a_connector_is_made_broken_and_mended_and_its_dead_letter_replayed(
    browser: Browser, worker: WorkerProcess, broker: str
) -> None:
    topic = Topic(broker, "orders")
    name = topic.name
    out = worker.folder / f"{name}.txt"
    topic.send([envelope(f"line {number}") for number in range(3)])
    page = opened(browser, worker.url)
    said = complaints(page)

    page.goto("/console/overview")
    page.get_by_role("link", name="New").click()
    page.get_by_role("link", name="FileStreamSinkConnector", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("New FileStreamSinkConnector")
    press(page, "Check")
    expect(page.locator("#outcome")).to_contain_text("in it")
    page.locator("#name").fill(name)
    change(page, "topics", name)
    change(page, "file", out.name)
    change(page, "errors.tolerance", "all")
    change(page, "errors.deadletterqueue.topic.name", f"{name}-dlq")
    change(page, "errors.deadletterqueue.topic.replication.factor", "1")
    change(page, "errors.deadletterqueue.context.headers.enable", "true")
    _preview(page, "Preview", "line 0")
    assert not faults(page)
    assert not out.exists()
    press(page, "Create")
    expect(page.locator("#tasks")).to_contain_text("RUNNING")
    eventually(lambda: len(lines_of(out)) == 3, WITHIN_S)

    # It breaks: a record that is no JSON.
    topic.send([b"{no json"])
    topic.send([envelope("line 3")])
    eventually(lambda: lines_of(out)[-1:] == [b"line 3"], WITHIN_S)
    page.get_by_role("link", name="Dead letters").last.click()
    record = page.locator("details.record")
    eventually(lambda: page.reload() and record.count() == 1, WITHIN_S)
    expect(record).to_contain_text("{no json")
    expect(record.get_by_text("VALUE_CONVERTER")).to_be_visible()
    assert not faults(page)

    # It is mended: the values are text.
    page.get_by_role("link", name="Config").click()
    change(page, "value.converter", STRING)
    _preview(page, "Preview what changes", STRING)
    assert not faults(page)
    press(page, "Save")
    expect(page.locator("#tasks")).to_contain_text("RUNNING")
    page.get_by_role("link", name="Dead letters").last.click()
    page.get_by_text("Replay all…").click()
    press(page, "Replay all")
    expect(page.get_by_role("status").first).to_contain_text("on their way")
    eventually(lambda: b"{no json" in lines_of(out), WITHIN_S)

    # A task fails: the overview tells why.
    page.get_by_role("link", name="Config").click()
    change(page, "file", f"none/{out.name}")
    press(page, "Save")
    expect(page.locator("#tasks")).to_be_visible()
    worker.wait_states(name, "FAILED", within_s=WITHIN_S)
    page.goto("/console/overview")
    expect(page.locator("#troubles")).to_contain_text(f"none/{out.name}")
    assert not faults(page)
    page.locator("#troubles").get_by_role("link", name=name).click()
    page.get_by_role("link", name="Config").click()
    change(page, "file", out.name)
    press(page, "Save")
    expect(page.locator("#tasks")).to_contain_text("RUNNING")

    page.get_by_role("link", name="Log").click()
    expect(page.locator("#lines")).to_contain_text(name)
    assert not faults(page)
    _move_offsets(page, out)
    assert said == []
    page.context.close()


def _preview(page: Page, button: str, text: str) -> None:
    """The preview has this text, once Spark is ready for it."""
    result = page.locator("#result")

    def is_there() -> bool:
        with page.expect_response(lambda answer: answer.request.method == "POST"):
            press(page, button)
        expect(page.locator("form.config:not([aria-busy])")).to_be_attached()
        return "There is none" not in result.inner_text()

    eventually(is_there, WITHIN_S, result.inner_text)
    expect(result).to_contain_text(text)


def _move_offsets(page: Page, out: Path) -> None:
    """The connector writes all of its topic once more."""
    before = len(lines_of(out))
    page.get_by_role("link", name="State").click()
    page.get_by_text("Stop…").click()
    press(page, "Stop")
    page.get_by_role("link", name="Offsets").click()
    page.get_by_label("To a time (UTC)").fill("2020-01-01T00:00:00")
    press(page, "Show the offsets at that time")
    expect(page.locator('[name="offset"]')).to_have_value('{"kafka_offset": 0}')
    assert not faults(page)
    press(page, "Set the offsets")
    expect(page.get_by_role("status").first).to_contain_text("The offsets are changed")
    page.get_by_role("link", name="State").click()
    press(page, "Resume")
    eventually(lambda: len(lines_of(out)) > before, WITHIN_S)


PAGES: Final = (
    "overview",
    "new",
    "new?plugin=FileStreamSink",
    "cluster",
    "dead-letters",
    *(f"connectors/c{page}" for page in ("", "/config", "/offsets", "/log", "/history", "/dead-letters")),
    "connectors/broken",
)


def test_each_page_is_fit_for_everybody_and_runs_nothing_that_somebody_named(
    browser: Browser, workers: Callable[..., Worker]
) -> None:
    running = workers()
    running.client.put("/connectors/c/config", json={**FILE, "topic": EVIL, EVIL: EVIL})
    running.client.put("/connectors/broken/config", json={**FILE, "file": f"/none/{EVIL}/f"})
    running.client.post("/connectors", json={"name": EVIL, "config": FILE})
    page = opened(browser, running.url)
    said = complaints(page)
    for path in (*PAGES, f"connectors/{quote(EVIL, safe='')}", f"connectors/{quote(EVIL, safe='')}/config"):
        answer = page.goto(f"/console/{path}")
        assert answer is not None
        assert answer.status == 200, path
        assert not faults(page)
    assert said == []
    page.context.close()


def test_by_keyboard_alone_a_connector_is_found_and_paused(browser: Browser, workers: Callable[..., Worker]) -> None:
    running = workers()
    running.client.put("/connectors/c/config", json=FILE)
    page = opened(browser, running.url, java_script_enabled=False)
    page.goto("/console/overview")
    for wanted in ("c", "Pause"):
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.innerText") == wanted:
                break
        with page.expect_navigation():
            page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("It is being paused.")
    page.context.close()


def test_a_page_that_stays_open_is_brought_up_to_date(browser: Browser, workers: Callable[..., Worker]) -> None:
    running = workers()
    running.client.put("/connectors/c/config", json=FILE)
    page = opened(browser, running.url)
    page.goto("/console/connectors/c")
    expect(page.locator("#now")).to_contain_text("RUNNING")
    running.client.put("/connectors/c/pause")
    expect(page.locator("#now")).to_contain_text("PAUSED")
    page.context.close()


def test_a_check_shows_the_fields_of_a_transform_and_keeps_what_was_typed(
    browser: Browser, workers: Callable[..., Worker]
) -> None:
    page = opened(browser, workers().url)
    page.goto("/console/new?plugin=io.confluent.connect.jdbc.JdbcSinkConnector")
    change(page, "connection.password", "typed")
    change(page, "transforms", "mask")
    press(page, "Check")
    expect(page.locator('[name="c.transforms.mask.type"]')).to_be_attached()
    change(page, "transforms.mask.type", "org.apache.kafka.connect.transforms.MaskField$Value")
    press(page, "Check")
    expect(page.locator('[name="c.transforms.mask.fields"]')).to_be_attached()
    expect(page.locator('[name="c.connection.password"]')).to_have_value("typed")
    assert "typed" not in page.content()
    page.context.close()


def test_who_logs_in_may_do_there_what_rest_lets_him(
    browser: Browser, workers: Callable[..., Worker], tmp_path: Path
) -> None:
    users, rights = tmp_path / "users.properties", tmp_path / "rights.toml"
    users.write_text("anna=pw1\nben=pw2\n", encoding="utf-8")
    users.chmod(0o600)
    rule = '[[rules]]\nwho = ["user:{}"]\nconnectors = ["c"]\nrights = ["{}"]\n'
    rights.write_text(rule.format("anna", "edit") + rule.format("ben", "view"), encoding="utf-8")
    running = workers(rest_basic_auth_users_file=str(users), rest_rights_file=str(rights))
    running.client.put("/connectors/c/config", json=FILE, auth=("anna", "pw1"))
    for user, password, buttons in (("anna", "pw1", 1), ("ben", "pw2", 0)):
        page = opened(browser, running.url, http_credentials={"username": user, "password": password})
        page.goto("/console")
        expect(page.locator("header")).to_contain_text(user)
        page.get_by_role("link", name="c", exact=True).click()
        expect(page.get_by_text("Delete…")).to_have_count(buttons)
        page.context.close()


class _ForeignPage(BaseHTTPRequestHandler):
    """A page that sends a form to the console as soon as it is opened."""

    target = ""

    def do_GET(self) -> None:
        form = f'<form method=post action="{self.target}/pause"></form><script>document.forms[0].submit()</script>'
        text = form.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def test_a_foreign_page_changes_nothing_with_the_login_of_a_browser(
    browser: Browser, workers: Callable[..., Worker], tmp_path: Path
) -> None:
    users = tmp_path / "users.properties"
    users.write_text("anna=pw1\n", encoding="utf-8")
    users.chmod(0o600)
    running = workers(rest_basic_auth_users_file=str(users), access_control_allow_origin="*")
    running.client.put("/connectors/c/config", json=FILE, auth=("anna", "pw1"))
    foreign = ThreadingHTTPServer(("127.0.0.1", 0), _ForeignPage)
    threading.Thread(target=foreign.serve_forever, daemon=True).start()
    try:
        _ForeignPage.target = f"{running.url}/console/connectors/c"
        page = opened(browser, running.url, http_credentials={"username": "anna", "password": "pw1"})
        page.goto("/console/connectors/c")
        page.goto(f"http://localhost:{foreign.server_port}/")
        page.wait_for_url(re.compile("/pause"))
        expect(page.get_by_role("alert")).to_contain_text("Only a page of this console")
        status = running.client.get("/connectors/c/status", auth=("anna", "pw1")).json()
        assert status["connector"]["state"] == "RUNNING"
        page.context.close()
    finally:
        foreign.shutdown()
        foreign.server_close()


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.long
def test_either_worker_s_console_shows_and_changes_the_whole_cluster(
    browser: Browser, broker: str, tmp_path: Path
) -> None:
    cluster = new_cluster()
    own = {"config.history.topic": f"{cluster}-history", "config.history.replication.factor": "1"}
    topic, source = Topic(broker, "console-cluster"), tmp_path / "in.txt"
    source.write_text("one\ntwo\n", encoding="utf-8")
    with (
        ClusterWorker(tmp_path / "a", broker, cluster, own) as first,
        ClusterWorker(tmp_path / "b", broker, cluster, own) as second,
    ):
        first.wait_ready(WITHIN_S)
        second.wait_ready(WITHIN_S)
        first.create("in", connector_class=SOURCE, file=str(source), topic=topic.name)
        first.create("out", connector_class=SINK, file=str(tmp_path / "out.txt"), topics=topic.name)
        second.wait_states("in", "RUNNING", within_s=WITHIN_S)
        second.wait_states("out", "RUNNING", within_s=WITHIN_S)
        for worker in (first, second):
            page = opened(browser, worker.url)
            page.goto("/console/cluster")
            for one in (first, second):
                expect(page.locator("tbody").first).to_contain_text(one.worker_id)
            expect(page.locator("tbody").first).to_contain_text("leads")
            page.goto("/console/connectors/in/config")
            change(page, "batch.size", str(7 + (worker is second)))
            press(page, "Save")
            expect(page.locator("#tasks")).to_contain_text("RUNNING")
            page.goto("/console/connectors/in/log")
            expect(page.locator("#lines")).to_contain_text("in")
            page.context.close()
        page = opened(browser, second.url)
        page.goto("/console/connectors/in/history")
        expect(page.locator("section.revision")).to_have_count(3)
        assert not faults(page)
        before = page.locator("section.revision").nth(1)
        before.locator("summary").click()
        before.get_by_role("button").click()
        expect(page.get_by_role("status").first).to_contain_text("The config of that revision is set")
        eventually(lambda: first.get("/connectors/in/config")["batch.size"] == "7", WITHIN_S)
        page.context.close()
