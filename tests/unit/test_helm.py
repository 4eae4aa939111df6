"""The Helm chart: its values against their schema, and what helm makes of it: kept output and plain manifests.

CI has no helm: it is no package of Python or Debian. So `deploy.chart` keeps helm's output in `tests/golden/helm`
and `deploy/kubernetes`, under a digest of the chart and the output. Where helm is on PATH, or where HELM names it,
the output is made again. `test_deploy.py` looks at the plain manifests.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from deploy.chart import CASES, CHART, MATCHERS, PLAIN, RENDERED, ROOT, helm_path, kept, stamped
from deploy.kafka.acls import GRANTS
from tests.unit.test_deploy import KUBERNETES, check_command, check_settings, documents, manifests, patched

HELM = helm_path()
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is neither on PATH nor named by HELM")
Documents = dict[tuple[str, str], dict[str, Any]]
WORKLOADS = ("Deployment", "StatefulSet", "Job")
KEPT = [*(RENDERED / f"{case}.yaml" for case in CASES), *manifests(PLAIN), *manifests(MATCHERS)]
"""Every file that `deploy.chart` writes."""


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
    for wrong in ({"shards": 3}, {"partitions": 0}, {"imag": "x:1"}, {"judge": {"replicas": 2}}, {"plain": "yes"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**values(), **wrong}, schema)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ({"nodeSelector": {"pool": "a"}}, {"nodeSelecter": {"pool": "a"}}),
        ({"nodeSelector": {"ssd": "true"}}, {"nodeSelector": {"ssd": True}}),
        (
            {"tolerations": [{"key": "pool", "effect": "NoExecute"}]},
            {"tolerations": [{"key": "pool", "efect": "NoExecute"}]},
        ),
        ({"affinity": {"podAntiAffinity": {}}}, {"affinity": {"podAntiAfinity": {}}}),
        ({"priorityClassName": "judges"}, {"priorityClassName": 5}),
        ({"storageClass": "fast"}, {"storageClassName": "fast"}),
    ],
)
def test_wrong_names_of_places_are_refused_for_all_pods_and_for_those_of_a_role(
    right: dict[str, Any], wrong: dict[str, Any]
) -> None:
    schema, usual = json.loads((CHART / "values.schema.json").read_text()), values()
    roles = ("judge", "match", "query") if "storageClass" in right else ("topics", "fingerprint", "judge", "news")
    for where in (None, *roles):
        for given in (right, wrong):
            changed = {**usual, **given} if where is None else {**usual, where: {**usual[where], **given}}
            assert jsonschema.Draft7Validator(schema).is_valid(changed) == (given is right), (where, given)


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


def test_pods_run_where_the_values_say_and_a_roles_own_values_replace_those_for_all() -> None:
    given = yaml.safe_load((RENDERED / "more.values.yaml").read_text())
    made = workloads([*rendered("more").values()])
    found = {name.removeprefix("simstream-"): one["spec"] for (_, name), one in made.items()}
    pods = {role: one["template"]["spec"] for role, one in found.items()}
    assert all(pod["imagePullSecrets"] == [{"name": "registry.account"}] for pod in pods.values())
    assert pods["fingerprint"]["nodeSelector"] == pods["topics-1"]["nodeSelector"] == given["nodeSelector"]
    assert pods["judge"]["nodeSelector"] == {"pool": "memory"}
    assert pods["fingerprint"]["tolerations"] == given["tolerations"]
    assert "tolerations" not in pods["judge"]
    assert pods["judge"]["priorityClassName"] == "streams"
    assert "priorityClassName" not in pods["topics-1"]
    assert "affinity" not in pods["fingerprint"]
    assert pods["judge"]["affinity"].keys() == {"nodeAffinity", "podAntiAffinity"}
    assert pods["judge"]["affinity"]["nodeAffinity"] == given["affinity"]["nodeAffinity"]
    [claim] = found["judge"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"


@pytest.mark.parametrize("role", ["judge", "match"])
def test_two_judges_or_matchers_never_share_a_node_as_the_chart_comes(role: str) -> None:
    pod = rendered("all")["StatefulSet", f"simstream-{role}"]["spec"]["template"]
    [rule] = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = pod["metadata"]["labels"]
    assert rule == {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}


def test_alerts_dashboard_and_settings_of_the_chart_are_the_files_of_the_other_deployments() -> None:
    for name, original in (
        ("alerts.yml", "prometheus/alerts.yml"),
        ("dashboard.json", "grafana/simstream.json"),
        ("simstream.toml", "kubernetes/simstream.toml"),
    ):
        assert (CHART / "files" / name).resolve() == ROOT / "deploy" / original


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_kept_output_is_that_of_this_chart_and_has_not_been_edited(path: Path) -> None:
    text = path.read_text()
    assert text == stamped(text.partition("\n")[2]), "run `python -m deploy.chart` where helm is"


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


def test_plain_manifests_have_nothing_of_a_release() -> None:
    for document in [*documents(), *documents(MATCHERS)]:
        text = json.dumps(document)
        for word in (
            "app.kubernetes.io/instance",
            "app.kubernetes.io/managed-by",
            "helm.sh/",
            "simstream/settings",
        ):
            assert word not in text
    assert ("Job", "simstream-topics") in workloads(documents())


def test_the_component_for_kubectl_starts_the_pods_that_the_chart_starts_for_as_many_shards() -> None:
    plain = workloads([*patched(), *documents(MATCHERS)])
    made = {
        (kind, name.removesuffix("-1")): one for (kind, name), one in workloads([*rendered("all").values()]).items()
    }
    assert len(plain) == 4
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
def test_helm_accepts_the_chart_and_makes_the_kept_output() -> None:
    assert HELM
    lint = subprocess.run([HELM, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert lint.returncode == 0, lint.stdout
    made = kept(HELM)
    assert set(made) == set(KEPT)
    for path, text in made.items():
        assert text == path.read_text(), path


@needs_helm
def test_scaling_knows_the_partitions_the_threads_and_the_prefix_of_the_values() -> None:
    given = "partitions=12,fingerprint.threads=3,fingerprint.scaling.enabled=true,fingerprint.scaling.prefix=news"
    line = [str(HELM), "template", "simstream", str(CHART), "--show-only", "templates/scaling.yaml", "--set", given]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    scaled = yaml.safe_load(done.stdout)["spec"]
    [trigger] = scaled["triggers"]
    assert (scaled["maxReplicaCount"], trigger["metadata"]["threshold"]) == (12, "60")
    assert trigger["metadata"]["query"].count('{prefix="news"') == 3


@needs_helm
def test_an_anti_affinity_of_a_role_replaces_that_of_the_chart() -> None:
    given = 'judge={"affinity":{"podAntiAffinity":{}},"storageClass":""},storageClass="slow",shards=2'
    line = [str(HELM), "template", "simstream", str(CHART), "--set-json", given]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    made = workloads([one for one in yaml.safe_load_all(done.stdout) if one])
    judge, match = (made["StatefulSet", f"simstream-{role}"]["spec"] for role in ("judge", "match"))
    assert judge["template"]["spec"]["affinity"] == {"podAntiAffinity": {}}
    assert "storageClassName" not in judge["volumeClaimTemplates"][0]["spec"]
    assert match["template"]["spec"]["affinity"]["podAntiAffinity"]
    assert match["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "slow"


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
