"""The bounds of previews: two at once, each within its time, secrets hidden."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.plugins.errors import RetriableError
from headrace.worker.errors import BadRequest, Conflict, ConnectError, Starting, TimedOut
from headrace.worker.logging.logs import connector_context
from headrace.worker.logging.redaction import Redaction
from headrace.worker.model import Config
from headrace.worker.preview import previews as module
from headrace.worker.preview.model import EffectShown, Preview, PreviewedRecord, Stage, Wanted
from headrace.worker.preview.previews import WorkerPreviews

CONFIG: Config = {"name": "c"}
NOTHING = Preview("sink", [])


def previews(limit_ms: int = 60_000, is_ready: bool = True) -> WorkerPreviews:
    engine: Any = SimpleNamespace(projections=SimpleNamespace(spark=SimpleNamespace(is_ready=is_ready)))
    worker: Any = {"preview.timeout.ms": limit_ms}
    unused: Any = None
    return WorkerPreviews(worker, unused, unused, engine, unused)


def test_a_third_preview_is_asked_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    going_on, begun = threading.Event(), threading.Semaphore(0)

    def slow(self: Any, config: Config, before: Config | None) -> Preview:
        begun.release()
        going_on.wait(60)
        return NOTHING

    monkeypatch.setattr(module._Run, "preview", slow)
    made = previews()
    found: list[Preview] = []
    threads = [threading.Thread(target=lambda: found.append(made.preview(CONFIG, Wanted()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert begun.acquire(timeout=60)
    assert begun.acquire(timeout=60)
    with pytest.raises(Conflict, match="2 previews are running"):
        made.preview(CONFIG, Wanted())
    going_on.set()
    for thread in threads:
        thread.join(60)
    assert found == [NOTHING, NOTHING]
    assert made.preview(CONFIG, Wanted()) == NOTHING


def test_one_that_takes_too_long_names_the_stage_and_keeps_its_place_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()

    def stuck(self: Any, config: Config, before: Config | None) -> Preview:
        with self.progress.at("transforms.slow (Sql)"):
            assert self.stop.wait(60)
        ended.set()
        return NOTHING

    monkeypatch.setattr(module._Run, "preview", stuck)
    with pytest.raises(
        TimedOut, match=r"given up after 0\.05 s .*: transforms\.slow \(Sql\) had taken 0\.\d s of them"
    ):
        previews(limit_ms=50).preview(CONFIG, Wanted())
    assert ended.wait(60)


def test_it_needs_spark() -> None:
    with pytest.raises(Starting):
        previews(is_ready=False).preview(CONFIG, Wanted())


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (BadRequest("no such class"), BadRequest, "no such class"),
        (
            RetriableError("the database is away"),
            ConnectError,
            "in the validation: RetriableError: the database is away",
        ),
        (SystemExit(3), SystemExit, "3"),
    ],
)
def test_errors_reach_the_requester(
    error: BaseException, kind: type[BaseException], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: Any, config: Config, at_end: Any) -> Preview:
        with self.progress.at("the validation"):
            raise error

    monkeypatch.setattr(module._Run, "_previewed", failing)
    with pytest.raises(kind, match=text):
        previews().preview(CONFIG, Wanted())


def test_an_error_takes_its_secrets_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Any, config: Config, at_end: Any) -> Preview:
        with connector_context("c", "preview", redaction=Redaction({"s3cret-word"})):
            raise ValueError("no login with s3cret-word")

    monkeypatch.setattr(module._Run, "_previewed", failing)
    with pytest.raises(ConnectError) as raised:
        previews().preview(CONFIG, Wanted())
    assert "s3cret-word" not in str(raised.value)


def test_no_text_of_an_answer_shows_a_secret() -> None:
    stage = Stage("transform", value={"a": ["my s3cret", 1]}, topic="t")
    record = PreviewedRecord(stages=[stage], effects=[EffectShown("insert", "s3cret", {"sql": ("s3cret",)})])
    hidden: Preview = module._without_secrets(
        Preview("sink", [record]), lambda text: text.replace("s3cret", "[hidden]")
    )
    assert "s3cret" not in str(hidden)
    assert hidden.records[0].stages[0].value == {"a": ["my [hidden]", 1]}
    assert hidden.records[0].stages[0].topic == "t"
