"""The manifests and the chart: schemas of Kubernetes, names that lead somewhere, and that both are the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import javaproperties
import jsonschema
import pytest
import yaml

from headrace.config.worker.config import WorkerConfig
from tests.unit.deploy.chart import CASES, rendered
from tests.unit.deploy.record_schemas import FOLDER, KINDS, VERSIONS

Objects = list[dict[str, Any]]
MANIFESTS = Path(__file__).parents[3] / "deploy" / "kubernetes"


def manifests() -> Objects:
    """The objects of the kustomization and of its component, with the config map that kustomize makes."""
    files = [path for path in sorted(MANIFESTS.rglob("*.yaml")) if path.name != "kustomization.yaml"]
    found = [one for path in files for one in yaml.safe_load_all(path.read_text())]
    kustomization = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    assert {MANIFESTS / name for name in kustomization["resources"]} == {
        one for one in files if one.parent == MANIFESTS
    }
    (made,) = kustomization["configMapGenerator"]
    data = {name: (MANIFESTS / name).read_text() for name in made["files"]}
    return [*found, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": made["name"]}, "data": data}]


BOTH = pytest.mark.parametrize("objects", [manifests(), rendered("as-manifests")], ids=["kustomize", "chart"])
ALL = pytest.mark.parametrize("objects", [manifests(), *map(rendered, CASES)], ids=["kustomize", *CASES])


@ALL
@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_them(version: str, objects: Objects) -> None:
    schemas = json.loads((FOLDER / f"kubernetes-{version}.json").read_text())
    for one in objects:
        if one["kind"] != "ServiceMonitor":  # of Prometheus' operator
            validator = jsonschema.Draft202012Validator({**schemas, "$ref": f"#/$defs/{one['kind']}"})
            assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(one)] == []
    missing = {*KINDS, "ServiceMonitor"} - {one["kind"] for one in objects}
    assert missing <= {"NetworkPolicy", "ServiceMonitor"}, "these can be left out"


def test_the_schemas_refuse_a_slip_of_the_pen() -> None:
    schemas = json.loads((FOLDER / f"kubernetes-{VERSIONS[-1]}.json").read_text())
    (found,) = of_kind(manifests(), "StatefulSet")
    found["spec"]["template"]["spec"]["terminationGracePeriodSecond"] = 60
    validator = jsonschema.Draft202012Validator({**schemas, "$ref": "#/$defs/StatefulSet"})
    assert [error.json_path for error in validator.iter_errors(found)] == ["$.spec.template.spec"]


@ALL
def test_ports_labels_and_names_lead_somewhere(objects: Objects) -> None:
    (workers,) = of_kind(objects, "StatefulSet")
    template = workers["spec"]["template"]
    pod, (container,) = template["spec"], template["spec"]["containers"]
    labels = template["metadata"]["labels"]
    ports = {one["name"] for one in container["ports"]}
    services = of_kind(objects, "Service")
    assert workers["spec"]["serviceName"] in {one["metadata"]["name"] for one in services}
    assert {one["httpGet"]["port"] for key, one in container.items() if key.endswith("Probe")} <= ports
    selectors = [one["spec"]["selector"] for one in services]
    selectors += [one["spec"]["podSelector"]["matchLabels"] for one in of_kind(objects, "NetworkPolicy")]
    selectors += [one["spec"]["selector"]["matchLabels"] for one in of_kind(objects, "PodDisruptionBudget")]
    assert all(one == labels for one in selectors)
    assert {port["targetPort"] for one in services for port in one["spec"]["ports"]} == ports
    assert {port["port"] for port in _allowed(objects)} in (ports, set())
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == set(volumes)
    (config,) = of_kind(objects, "ConfigMap")
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]


@BOTH
def test_probes_restart_no_worker_for_one_failed_task_and_it_drains_before_its_end(objects: Objects) -> None:
    (workers,) = of_kind(objects, "StatefulSet")
    (container,) = workers["spec"]["template"]["spec"]["containers"]
    probes = {key: one["httpGet"]["path"] for key, one in container.items() if key.endswith("Probe")}
    assert probes == dict.fromkeys(("startupProbe", "livenessProbe", "readinessProbe"), "/health")
    assert "/admin/drain" in " ".join(container["lifecycle"]["preStop"]["exec"]["command"])


@ALL
def test_workers_advertise_names_of_which_one_certificate_can_have_all(objects: Objects) -> None:
    """OpenSSL takes no wildcard before a single label, such as `*.headrace`."""
    (workers,) = of_kind(objects, "StatefulSet")
    (container,) = workers["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one for one in container["env"]}
    name = f"$(POD_NAME).{workers['spec']['serviceName']}.$(POD_NAMESPACE).svc"
    assert variables["CONNECT_REST_ADVERTISED_HOST_NAME"]["value"] == name
    fields = {key: variables[key]["valueFrom"]["fieldRef"]["fieldPath"] for key in ("POD_NAME", "POD_NAMESPACE")}
    assert fields == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}


@BOTH
def test_prometheus_finds_one_service_with_the_metrics(objects: Objects) -> None:
    (monitor,) = of_kind(objects, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = of_kind(objects, "Service")
    (found,) = [one for one in services if wanted <= one["metadata"].get("labels", {}).items()]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("metrics", "/metrics")
    assert endpoint["port"] in {port["name"] for port in found["spec"]["ports"]}


@BOTH
def test_the_workers_properties_listen_where_the_container_says(objects: Objects) -> None:
    (config,), (workers,) = of_kind(objects, "ConfigMap"), of_kind(objects, "StatefulSet")
    props = javaproperties.loads(config["data"]["worker.properties"])
    props["config.providers"] = ""  # its folder is in the pod alone
    (container,) = workers["spec"]["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    worker = WorkerConfig.distributed(props)
    assert [one.port for one in worker.listeners()] == [ports["rest"]]
    assert [one.port for one in worker.metrics_listeners()] == [ports["metrics"]]
    grace_ms = workers["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] * 1000
    assert grace_ms > worker["task.shutdown.graceful.timeout.ms"] + 30_000, "the drain of preStop comes before"


def test_the_chart_has_what_the_manifests_have() -> None:
    chart = {_key(one): one for one in _plain(rendered("as-manifests"))}
    plain = {_key(one): one for one in _plain(manifests())}
    properties = [
        javaproperties.loads(one["ConfigMap", "headrace-worker"].pop("data")["worker.properties"])
        for one in (chart, plain)
    ]
    assert properties[0] == properties[1]
    assert chart == plain


def test_kustomize_takes_its_files_as_what_they_are() -> None:
    files = [yaml.safe_load(path.read_text()) for path in sorted(MANIFESTS.rglob("kustomization.yaml"))]
    versions = {one["kind"]: one["apiVersion"].rpartition("/")[2] for one in files}
    assert versions == {"Kustomization": "v1beta1", "Component": "v1alpha1"}


def of_kind(objects: Sequence[dict[str, Any]], kind: str) -> Objects:
    return [one for one in objects if one["kind"] == kind]


def _allowed(objects: Objects) -> Iterator[dict[str, Any]]:
    for policy in of_kind(objects, "NetworkPolicy"):
        for rule in policy["spec"]["ingress"]:
            yield from rule["ports"]


def _key(one: dict[str, Any]) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def _plain(part: Any) -> Any:
    """Without the label and the annotation that only a release has."""
    if isinstance(part, list):
        return [_plain(one) for one in part]
    if not isinstance(part, dict):
        return part
    releases = ("app.kubernetes.io/instance", "annotations")
    return {key: _plain(value) for key, value in part.items() if key not in releases}
