"""`headrace lint`: files in, findings out; formats, exit codes, and what a worker or a cluster adds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import Result
from typer.testing import CliRunner

from headrace.config.lint.file_rules import FILE_RULES
from headrace.config.lint.finding import Finding, Severity
from headrace.config.lint.rules import RULES
from headrace.config.lint.view import ClusterFacts
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka import cluster_facts
from headrace.worker.cli.commands import app
from headrace.worker.errors import BadRequest
from tests.held_ports import held_port
from tests.unit.rest.scripted import scripted, serving

SOURCE: Final = {"name": "lines", "connector.class": "FileStreamSource", "topic": "t", "file": "f"}
SINK: Final = {"name": "out", "connector.class": "FileStreamSink", "topics": "t", "file": "g"}
WORKER: Final = """
bootstrap.servers=localhost:1
offset.storage.file.filename=offsets
key.converter=StringConverter
value.converter=StringConverter
"""
SECRET: Final = "hunter2-and-more"


def written(folder: Path, name: str, content: str | dict[str, Any]) -> Path:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
    return file


def lint(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["lint", *map(str, arguments)])


def rules(*arguments: str | Path) -> list[tuple[str, str, int | None, str | None]]:
    """File, rule, line and setting of each finding."""
    done = lint(*arguments, "--format", "json")
    found = json.loads(done.stdout)["findings"]
    return [(Path(one["file"]).name, one["rule"], one.get("line"), one.get("setting")) for one in found]


def test_a_right_file_has_no_finding(tmp_path: Path) -> None:
    done = lint(written(tmp_path, "a.json", SOURCE))
    assert (done.exit_code, done.stdout) == (0, "0 errors, 0 warnings, 0 notes\n")


def test_a_finding_names_file_and_line(tmp_path: Path) -> None:
    text = "# a source\nname=lines\nconnector.class=FileStreamSource\ntopic=t\nfiel = \\\n   f\ntasks.max=2\n"
    file = written(tmp_path, "a.properties", text)
    done = lint(file)
    assert done.stdout.splitlines() == [
        f"{file}:5: warning fiel: Nothing reads this setting: did you mean file? [unknown-setting]",
        "    → Mend its name, or remove it.",
        f"{file}:7: note tasks.max: The source makes 1 task(s) with this config. [tasks-over-source]",
        "    → Set it to 1.",
        "0 errors, 1 warning, 1 note",
    ]
    assert (done.exit_code, lint("--strict", file).exit_code) == (0, 1)


@pytest.mark.parametrize("is_request", [False, True])
def test_json_is_a_request_or_a_flat_object(tmp_path: Path, is_request: bool) -> None:
    config = {**SOURCE, "tasks.max": 0}
    done = lint(written(tmp_path, "a.json", {"name": "lines", "config": config} if is_request else config))
    assert done.exit_code == 2
    assert f"a.json:{8 if is_request else 6}: error tasks.max: " in done.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"name": "a", ', "It is not JSON"),
        ("[1]", "It is JSON, but not an object."),
        ({"name": "a", "config": {**SOURCE, "name": "b"}}, "doesn't match connector name in the file (a)"),
        ({**SOURCE, "name": ""}, "It names no connector."),
        ({"name": "a", "config": {**SOURCE, "transforms": ["x"]}}, "It must be a text, a number or a boolean."),
        ({"name": "a", "configs": 1, "config": SOURCE}, "It has unknown members: configs."),
        ("[" * 100_000, "nested too deep"),
        ("{}", "It names no connector."),
        ("", "It is not JSON"),
    ],
)
def test_a_file_that_a_worker_refuses(tmp_path: Path, content: Any, message: str) -> None:
    done = lint(written(tmp_path, "a.json", content))
    assert done.exit_code == 2
    assert message in done.stdout
    assert "[refused-file]" in done.stdout


def test_properties_of_nothing_known(tmp_path: Path) -> None:
    done = lint(written(tmp_path, "a.properties", "log4j.rootLogger=INFO"))
    assert done.exit_code == 2
    assert "The file is neither a connector's, nor a worker's, nor MirrorMaker's." in done.stdout


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    done = lint(tmp_path / "none.json")
    assert (done.exit_code, "The file cannot be read: No such file" in done.stdout) == (2, True)


def test_a_refused_file_is_judged_as_far_as_it_can_be(tmp_path: Path) -> None:
    file = written(tmp_path, "a.json", {"name": "a", "config": {**SOURCE, "fiel": "x", "connector.class": "Other"}})
    assert [rule for _, rule, _, _ in rules(file)] == ["refused-file", "unknown-plugin"]
    of_none = written(tmp_path, "b.json", {"name": "b", "connector.class": "Other", "errors.tolerance": "all"})
    assert [rule for _, rule, _, _ in rules(of_none)] == ["unknown-plugin", "tolerance-without-dead-letters"]


def test_settings_that_a_file_has_twice(tmp_path: Path) -> None:
    twice = written(tmp_path, "a.properties", "name=a\nconnector.class=FileStreamSource\ntopic=t\ntopic=u\nfile=f\n")
    text = json.dumps(SOURCE)[:-1] + ',\n"topic": "u"}'
    assert rules(twice) == [("a.properties", "repeated-setting", 4, "topic")]
    assert rules(written(tmp_path, "b.json", text)) == [("b.json", "repeated-setting", 2, "topic")]


def test_files_are_compared(tmp_path: Path) -> None:
    written(tmp_path, "a.json", SINK)
    written(tmp_path, "b.json", {**SINK, "name": "other", "consumer.override.group.id": "connect-out"})
    assert rules(tmp_path) == [
        ("a.json", "shared-group", 2, "name"),
        ("b.json", "shared-group", 6, "consumer.override.group.id"),
    ]
    written(tmp_path, "c.json", {**SOURCE, "name": "other"})
    assert rules(tmp_path)[-1] == ("c.json", "duplicate-name", 2, "name")


def test_other_files_of_a_folder_are_passed_over(tmp_path: Path) -> None:
    written(tmp_path, "package.json", {"name": "site", "version": "1"})
    written(tmp_path, "log4j.properties", "log4j.rootLogger=INFO")
    done = lint("--strict", tmp_path)
    assert (done.exit_code, done.stdout.count("[passed-over-file]")) == (0, 2)
    assert lint(tmp_path / "package.json").exit_code == 2


def test_a_worker_s_file(tmp_path: Path) -> None:
    text = f"{WORKER}offset.flush.intervall.ms=5\nrest.port=8083\nlisteners=x\nproducer.ssl.key.password={SECRET}\n"
    file = written(tmp_path, "worker.properties", text)
    assert sorted(rule for _, rule, _, _ in rules(file)) == [
        "invalid-setting",
        "literal-secret",
        "removed-setting",
        "unknown-setting",
    ]
    assert "Did you mean offset.flush.interval.ms?" in lint(file).stdout
    assert SECRET not in lint(file).stdout
    variables = f"{WORKER}config.providers=env\nconfig.providers.env.class=EnvVarConfigProvider\n"
    variables += "offset.flush.interval.ms=${env:MS}\nproducer.ssl.key.password=${env:P}\nspark.master=local[2]\n"
    assert rules(written(tmp_path, "good.properties", variables)) == []


def test_mirrormaker_s_file(tmp_path: Path) -> None:
    text = "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n"
    assert rules(written(tmp_path, "mirror.properties", text)) == []
    wrong = f"{text}A->B.offset.lag.max=x\nA.ssl.key.password={SECRET}\ntopic=orders\n"
    assert rules(written(tmp_path, "wrong.properties", wrong)) == [
        ("wrong.properties", "invalid-setting", 5, "A->B.offset.lag.max"),
        ("wrong.properties", "unknown-setting", 7, "topic"),
        ("wrong.properties", "literal-secret", 6, "A.ssl.key.password"),
    ]
    hidden = text.replace("A,B", "${env:CLUSTERS}")
    assert rules(written(tmp_path, "hidden.properties", hidden)) == []
    assert rules(written(tmp_path, "one.properties", "clusters=A\nA.bootstrap.servers=a:1\n")) == [
        ("one.properties", "invalid-setting", 1, "clusters")
    ]


def test_a_worker_s_settings_count(tmp_path: Path) -> None:
    worker = written(tmp_path, "worker.properties", f"{WORKER}connector.client.config.override.policy=None\n")
    file = written(tmp_path, "a.json", {**SINK, "consumer.override.max.poll.records": "5"})
    assert rules(file) == []
    assert rules("--worker", worker, file) == [("a.json", "invalid-setting", 6, "consumer.override.max.poll.records")]
    assert lint("--worker", tmp_path / "none", file).exit_code == 2


def test_a_worker_s_variables_and_files_need_not_be_there(tmp_path: Path) -> None:
    text = f"{WORKER}offset.flush.interval.ms=${{env:MS}}\nlisteners=https://:8443\n"
    text += "listeners.https.ssl.keystore.location=/none/worker.pem\nrest.rights.file=/none/rights.toml\n"
    worker = written(tmp_path, "worker.properties", text)
    file = written(tmp_path, "a.json", {**SINK, "consumer.override.client.id": "${vault:a:b}"})
    assert rules("--worker", worker, file) == [("a.json", "unresolved-variable", 6, "consumer.override.client.id")]
    assert rules(worker) == []
    wrong = lint("--worker", written(tmp_path, "wrong.properties", "group.id=x"), file)
    assert (wrong.exit_code, "bootstrap.servers" in wrong.stderr) == (2, True)


def test_a_cluster_is_compared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "a.json", {**SINK, "tasks.max": "3"})
    monkeypatch.setattr(cluster_facts, "cluster_facts", lambda client: ClusterFacts(1, {"t": 2}))
    assert rules("--bootstrap-server", "b:1", file) == [("a.json", "tasks-over-partitions", 6, "tasks.max")]

    def away(client: dict[str, Any]) -> ClusterFacts:
        raise RetriableError(f"{client['bootstrap.servers']} does not answer: it is away")

    monkeypatch.setattr(cluster_facts, "cluster_facts", away)
    done = lint("--bootstrap-server", "b:1", file)
    assert (done.exit_code, done.stderr) == (3, "headrace: --bootstrap-server b:1 does not answer: it is away\n")


def test_a_worker_is_asked(tmp_path: Path) -> None:
    file = written(tmp_path, "a.json", {**SINK, "connector.class": "Known", "topics": None})
    found = [Finding("missing-topic", Severity.WARNING, "topics", "m", "a")]
    herder = scripted({"connectors": [], "lint": found})
    with serving(herder) as client:
        asked = rules("--rest", str(client.base_url), file)
        herder.script["lint"] = BadRequest("it is not so")
        refused = lint("--rest", str(client.base_url), file)
    assert asked == [("a.json", "refused-file", None, None), ("a.json", "missing-topic", 4, "topics")]
    assert herder.asked[-1][1] == {**SINK, "connector.class": "Known", "topics": None}
    assert (refused.exit_code, "/Known/config/lint with 400: it is not so" in refused.stderr) == (1, True)


def test_a_worker_that_does_not_answer(tmp_path: Path) -> None:
    file = written(tmp_path, "a.json", SINK)
    done = lint("--rest", f"http://ann:{SECRET}@127.0.0.1:{held_port()}", file)
    assert done.exit_code == 3
    assert "no worker answers at http://[hidden]@127.0.0.1" in done.stderr
    assert lint("--rest", "http://h", "--bootstrap-server", "b:1", file).exit_code == 2
    assert lint("--format", "xml", file).exit_code == 2


def test_sarif_has_what_its_readers_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "a b.json", {**SOURCE, "fiel": "x", "tasks.max": "none"})
    Path("none").mkdir()
    written(tmp_path / "none", "c.json", "{}")
    here = json.loads(lint("a b.json", "none", "--format", "sarif").stdout)
    assert here["version"] == "2.1.0"
    assert here["$schema"].endswith("sarif-2.1.0.json")
    (run,) = here["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "headrace lint"
    assert [rule["id"] for rule in driver["rules"]] == [rule.id for rule in (*RULES, *FILE_RULES)]
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    assert {one["level"] for one in run["results"]} == {"error", "warning", "note"}
    for one in run["results"]:
        assert driver["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
        assert one["message"]["text"]
        (location,) = one["locations"]
        place = location["physicalLocation"]
        assert place["region"]["startLine"] >= 1
        assert place["artifactLocation"]["uri"] in ("a%20b.json", "none/c.json")
    absolute = json.loads(lint(tmp_path / "a b.json", "--format", "sarif").stdout)
    uri = absolute["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"file:///.*/a%20b\.json", uri)


@pytest.mark.parametrize("style", ["text", "json", "sarif"])
def test_no_format_has_a_secret(tmp_path: Path, style: str) -> None:
    config = {"name": "c", "connector.class": "JdbcSource", "connection.password": f"{SECRET} ", "mode": SECRET}
    assert SECRET not in lint(written(tmp_path, "a.json", config), "--format", style).stdout
