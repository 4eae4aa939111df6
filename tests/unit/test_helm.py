"""The Helm chart: its values against their schema and the plain manifests, and what helm makes of it.

CI has no helm: it is no package of Python or Debian. So `deploy.chart` keeps helm's output in `tests/golden/helm`,
under a digest of the chart. Where helm is on PATH, or where HELM names it, the output is made again.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from deploy.chart import CASES, CHART, RENDERED, ROOT, chart_digest, helm_path, render
from deploy.kafka.acls import GRANTS
from tests.unit.test_deploy import KUBERNETES, MATCHERS, check_command, check_settings, documents, patched

HELM = helm_path()
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is neither on PATH nor named by HELM")
Documents = dict[tuple[str, str], dict[str, Any]]
WORKLOADS = ("Deployment", "StatefulSet", "Job")


def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def container(document: dict[str, Any]) -> dict[str, Any]:
    [found] = document["spec"]["template"]["spec"]["containers"]
    return dict(found)


def rendered(case: str) -> Documents:
    found = [one for one in yaml.safe_load_all((RENDERED / f"{case}.yaml").read_text()) if one]
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(by_name) == len(found)
    return by_name


def workloads(found: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["kind"], one["metadata"]["name"]): one for one in found if one["kind"] in WORKLOADS}


def test_the_values_keep_to_their_schema_and_wrong_ones_do_not() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(values(), schema)
    assert set(schema["properties"]) - {"global"} == set(values())
    for wrong in ({"shards": 3}, {"partitions": 0}, {"imag": "x:1"}, {"judge": {"replicas": 2}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**values(), **wrong}, schema)


def test_more_variables_secrets_and_rules_of_the_network_reach_every_pod() -> None:
    found = rendered("more")
    for document in workloads(list(found.values())).values():
        assert {"SIMSTREAM_WEBHOOK_SECRET"} <= {one["name"] for one in container(document)["env"]}
        mounts = {one["name"]: one["mountPath"] for one in container(document)["volumeMounts"]}
        assert mounts["secret-schema-registry"] == "/etc/secrets/schema.registry"
        volumes = {one["name"]: one for one in document["spec"]["template"]["spec"]["volumes"]}
        assert volumes["secret-schema-registry"]["secret"]["secretName"] == "schema.registry"
    [policy] = [one for (kind, _), one in found.items() if kind == "NetworkPolicy"]
    assert policy["spec"]["egress"][-1]["ports"] == [{"protocol": "TCP", "port": 8081}]


def test_alerts_dashboard_and_settings_of_the_chart_are_the_files_of_the_other_deployments() -> None:
    for name, original in (
        ("alerts.yml", "prometheus/alerts.yml"),
        ("dashboard.json", "grafana/simstream.json"),
        ("simstream.toml", "kubernetes/simstream.toml"),
    ):
        assert (CHART / "files" / name).resolve() == ROOT / "deploy" / original


@pytest.mark.parametrize("case", CASES)
def test_the_kept_output_is_that_of_this_chart(case: str) -> None:
    first = (RENDERED / f"{case}.yaml").read_text().partition(":")[0]
    assert first == f"# chart {chart_digest()}", "run `python -m deploy.chart` where helm is"


@pytest.mark.parametrize("case", CASES)
def test_documents_keep_to_the_strict_schemas_and_run_existing_commands(case: str) -> None:
    made = rendered(case)
    for document in made.values():
        if not document["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(document, KUBERNETES, strict=True)
    for document in workloads([*made.values()]).values():
        check_command(container(document)["args"])
        variables = {one["name"]: one.get("value", "simstream-match-0") for one in container(document)["env"]}
        del variables["SIMSTREAM_CONFIG"]  # simstream.toml, which the tests of the plain manifests read
        check_settings(variables)
        volumes = document["spec"]["template"]["spec"]["volumes"]
        [secret] = [one["secret"]["secretName"] for one in volumes if one["name"] == "kafka"]
        assert secret.removeprefix("simstream-kafka-") in GRANTS
    roles = {name.removeprefix("simstream-") for _, name in workloads([*made.values()])}
    all_roles = {"topics-1", "fingerprint", "judge", "match", "query", "news"}
    assert roles == (all_roles if case == "all" else {"topics-1", "fingerprint", "judge"})


@pytest.mark.parametrize("case", ["default", "all"])
def test_containers_are_those_of_the_plain_manifests(case: str) -> None:
    plain = workloads([*patched(), *documents(MATCHERS)] if case == "all" else documents())
    made = {
        (kind, name.removesuffix("-1")): one for (kind, name), one in workloads([*rendered(case).values()]).items()
    }
    assert len(plain) == (4 if case == "all" else 3)
    for key, theirs in plain.items():
        ours = made[key]
        assert container(ours) == container(theirs)
        if key[0] == "StatefulSet":
            for name in ("replicas", "volumeClaimTemplates", "podManagementPolicy", "serviceName"):
                assert ours["spec"][name] == theirs["spec"][name], (key, name)


@pytest.mark.parametrize("case", CASES)
def test_services_and_budgets_select_the_pods_of_their_name(case: str) -> None:
    made = rendered(case)
    for (kind, name), document in made.items():
        if kind in ("Service", "PodDisruptionBudget", "Deployment", "StatefulSet"):
            selector = document["spec"]["selector"]
            [pod] = [one for (_, other), one in workloads([*made.values()]).items() if other == name]
            assert selector.get("matchLabels", selector) == pod["spec"]["template"]["metadata"]["labels"]
        if kind == "Service":
            open_ports = {port["name"] for port in container(pod)["ports"]}
            assert {port["targetPort"] for port in document["spec"]["ports"]} <= open_ports


@needs_helm
@pytest.mark.parametrize("case", CASES)
def test_helm_accepts_the_chart_and_makes_the_kept_output(case: str) -> None:
    assert HELM
    lint = subprocess.run([HELM, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert lint.returncode == 0, lint.stdout
    assert render(case, HELM) == (RENDERED / f"{case}.yaml").read_text()


@needs_helm
def test_helm_refuses_a_wrong_value_by_name_and_takes_alerts_and_dashboard_as_they_are() -> None:
    line = [str(HELM), "template", "simstream", str(CHART), "--set"]
    done = subprocess.run([*line, "shards=3"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "shards" in done.stderr
    given = "monitoring.rules=true,monitoring.dashboard=true"
    done = subprocess.run([*line, given], capture_output=True, text=True, check=True)
    made = {one["kind"] + one["metadata"]["name"]: one for one in yaml.safe_load_all(done.stdout) if one}
    assert made["PrometheusRulesimstream"]["spec"] == yaml.safe_load((CHART / "files/alerts.yml").read_text())
    dashboard = made["ConfigMapsimstream-dashboard"]["data"]["simstream.json"]
    assert dashboard == (CHART / "files/dashboard.json").read_text()
