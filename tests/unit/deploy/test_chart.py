"""The objects that helm makes of the chart's values, and the values that it refuses."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import javaproperties
import jsonschema
import pytest
import yaml

from headrace.worker.cli.container import merged
from tests.certificates import Authority
from tests.unit.deploy.chart import CASES, CHART, OWN, REFUSED, digest, rendered, said

SAID = said()
MESSAGES = {
    "misspelt": "at '': additional properties 'replica' not allowed",
    "misspelt-of-pod": "at '/pod': additional properties 'nodeselector' not allowed",
    "text-for-bool": "at '/networkPolicy': got string, want boolean",
    "dots": "properties.group has to be one text. ",
    "list": "properties.config.providers has to be one text. A list is a text with commas",
    "long": "at '/properties/a.ms': maximum",
    "bell": "at '/properties/a': '\\a' does not match",
    "line-in-a-name": "invalid propertyName 'a\\nb'",
    "port": "properties has listeners=http://:8080 without port 8083",
    "monitor": "write metrics.listeners: http://:9404",
    "number-for-text": "at '/env/0/value': got number, want string",
    "bytes": "at '/scratchSize': '4' does not match",
    "digit": '"12345" names Services and pods: a letter first',
    "dotted": '"a.b" names Services and pods',
    "long-name": "then at most 51 small letters",
}


def one_of(case: str, kind: str) -> dict[str, Any]:
    (found,) = [one for one in rendered(case) if one["kind"] == kind]
    return found


def pod_of(case: str) -> dict[str, Any]:
    pod: dict[str, Any] = one_of(case, "StatefulSet")["spec"]["template"]["spec"]
    return pod


def properties_of(case: str) -> dict[str, str]:
    return dict(javaproperties.loads(one_of(case, "ConfigMap")["data"]["worker.properties"]))


def test_helm_has_rendered_this_chart() -> None:
    again = "the chart or a case has changed: python -m tests.unit.deploy.record_chart with a helm on the PATH"
    assert SAID["digest"] == digest(), again


@pytest.mark.parametrize("case", REFUSED)
def test_helm_refuses(case: str) -> None:
    assert MESSAGES[case] in SAID["refused"][case]


def test_all_values_have_a_place_in_the_schema() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}  # helm gives that to charts within charts
    jsonschema.Draft7Validator(schema).validate(values)


def test_properties_reach_the_worker_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "worker.properties").write_text(one_of("own", "ConfigMap")["data"]["worker.properties"])
    found = merged(tmp_path / "worker.properties", {})
    texts = {key: value for key, value in OWN["properties"].items() if isinstance(value, str)}
    assert {key: found[key] for key in texts} == texts
    assert found["offset.flush.interval.ms"] == "10000000"
    assert found["task.restart.enabled"] == "false"
    assert "scheduled.rebalance.max.delay.ms" in properties_of("default")
    assert "scheduled.rebalance.max.delay.ms" not in found


def test_an_upgrade_changes_nothing_that_kubernetes_keeps() -> None:
    kept = []
    for case in ("default", "own", "secure"):
        spec = one_of(case, "StatefulSet")["spec"]
        labels = spec["template"]["metadata"]["labels"]
        kept.append((labels, {key: value for key, value in spec.items() if key not in ("replicas", "template")}))
    assert kept[0] == kept[1] == kept[2]
    names = [{(one["kind"], one["metadata"]["name"]) for one in rendered(case)} for case in ("default", "own")]
    assert names[0] - names[1] == {("NetworkPolicy", "c")}


def test_pods_roll_for_other_properties_and_for_nothing_else() -> None:
    hashes = {
        case: one_of(case, "StatefulSet")["spec"]["template"]["metadata"]["annotations"]["checksum/properties"]
        for case in CASES
    }
    assert hashes["default"] == hashes["as-manifests"] == hashes["named-true"]
    assert len(set(hashes.values())) == 3


def test_values_are_heeded() -> None:
    pod, (container,) = pod_of("own"), pod_of("own")["containers"]
    assert (container["image"], one_of("own", "StatefulSet")["spec"]["replicas"]) == (OWN["image"], 3)
    assert "resources" not in container
    assert container["env"][-1] == OWN["env"][0]
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["secrets"]["secret"]["secretName"] == "own"
    assert volumes["scratch"]["emptyDir"]["sizeLimit"] == "10Gi"
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("reader", True)
    placed = {key: value for key, value in OWN["pod"].items() if key != "securityContext"}
    assert {key: pod[key] for key in placed} == placed
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert (pod_of("default").get("serviceAccountName"), pod_of("default")["automountServiceAccountToken"]) == (
        None,
        False,
    )


def test_labels_are_on_all_objects_but_the_pods() -> None:
    for one in rendered("secure"):
        assert one["metadata"]["labels"]["release"] == "prometheus", one["kind"]
    assert "release" not in one_of("secure", "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert one_of("named-true", "StatefulSet")["metadata"] == {"name": "true", "labels": {"team": "1"}}


def test_probes_speak_as_the_listener_does_and_need_no_login() -> None:
    for case, scheme in (("default", "HTTP"), ("secure", "HTTPS")):
        (container,) = pod_of(case)["containers"]
        assert {one["httpGet"]["scheme"] for key, one in container.items() if key.endswith("Probe")} == {scheme}
        assert properties_of(case)["rest.login.open.paths"] == "/health"


def test_a_longer_stop_has_its_time() -> None:
    assert pod_of("default")["terminationGracePeriodSeconds"] == 60
    assert pod_of("secure")["terminationGracePeriodSeconds"] == 116, "30 s of the drain, 61 of the tasks, some more"


@pytest.mark.parametrize(("case", "status"), [("default", 202), ("secure", 401)])
def test_a_pod_is_drained_before_its_end(case: str, status: int, tmp_path: Path) -> None:
    asked = []

    class Worker(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Worker) as server:
        if case == "secure":
            issued = Authority().issue("c-0.c")
            (tmp_path / "worker.pem").write_text(issued.pem)
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(tmp_path / "worker.pem")
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (container,) = pod_of(case)["containers"]
        python, *arguments = container["lifecycle"]["preStop"]["exec"]["command"]
        assert python == "python"
        command = [sys.executable, *(one.replace(":8083", f":{server.server_port}") for one in arguments)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        server.shutdown()
    assert (ran.returncode, ran.stderr, asked) == (0, "", ["/admin/drain"])


def test_notes_say_where_the_api_is() -> None:
    notes: dict[str, str] = SAID["notes"]
    for case, text in notes.items():
        services = {one["metadata"]["name"] for one in rendered(case) if one["kind"] == "Service"}
        assert f"service/{CASES[case].release}-api 8083" in text
        assert f"{CASES[case].release}-api" in services
        assert ("headrace.client" in text) == (case != "own")
        assert ("No registry has" in text) == (case != "own")
    assert "of the image registry.example.com/headrace:1" in notes["own"]
    assert "for other pods at https://c-api.team:8083" in notes["secure"]
