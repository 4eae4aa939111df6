"""The Helm chart: its values against their schema, and what Helm makes of it: kept output and plain manifests.

`deploy.chart` keeps Helm's output in `tests/golden/helm` and `deploy/kubernetes`, so that most tests need no Helm.
`test_deploy.py` looks at the plain manifests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from deploy.chart import CASES, MATCHERS, PLAIN, RENDERED, kept
from deploy.helm_library import CHART, ROOT, HelmError, lint, missing, template
from deploy.kafka.acls import GRANTS
from tests.kafka_fixtures import need_broker
from tests.unit.test_deploy import KUBERNETES, check_command, check_settings, documents, manifests, patched

Documents = dict[tuple[str, str], dict[str, Any]]
WithValues = Callable[[dict[str, Any]], list[dict[str, Any]]]
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
    for wrong in (
        {"shards": 3},
        {"partitions": 0},
        {"imag": "x:1"},
        {"judge": {"replicas": 2}},
        {"plain": "yes"},
        {"monitoring": {"rule": True}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**values(), **wrong}, schema)


def test_only_fingerprinters_and_judges_have_threads() -> None:
    schema, usual = json.loads((CHART / "values.schema.json").read_text()), values()
    takers = {
        role
        for role in ("fingerprint", "judge", "match", "query", "news")
        if jsonschema.Draft7Validator(schema).is_valid({**usual, role: {**usual[role], "threads": 4}})
    }
    assert takers == {"fingerprint", "judge"}


def test_threads_of_the_judge_and_partitions_of_verdicts_reach_the_commands(with_values: WithValues) -> None:
    made = workloads(with_values({"judge": {"threads": 5}, "verdictPartitions": 6}))
    assert container(made["StatefulSet", "simstream-judge"])["args"][3:5] == ["--threads", "5"]
    assert container(made["Job", "simstream-topics-1"])["args"][-2:] == ["--verdict-partitions", "6"]


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


def test_the_time_that_pods_have_to_start_is_a_value() -> None:
    for case, seconds in (("default", values()["startSeconds"]), ("more", 900)):
        for (kind, _), document in workloads(list(rendered(case).values())).items():
            if kind != "Job":
                probe = container(document)["startupProbe"]
                assert probe["periodSeconds"] * probe["failureThreshold"] == seconds


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


@pytest.mark.parametrize("case", CASES)
def test_documents_keep_to_the_strict_schemas_and_run_existing_commands(case: str) -> None:
    made = rendered(case)
    for document in made.values():
        labels = document["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "simstream"
        assert all(re.fullmatch(r"[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", value) for value in labels.values())
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


@pytest.fixture
def with_values(tmp_path: Path) -> WithValues:
    """Return a function from values to the documents that Helm makes with them."""
    need_broker("Helm", missing())

    def made(given: dict[str, Any]) -> list[dict[str, Any]]:
        path = tmp_path / "values.yaml"
        path.write_text(json.dumps(given))
        return [one for one in yaml.safe_load_all(template([path])) if one]

    return made


def test_helm_accepts_the_chart_and_makes_the_kept_output() -> None:
    need_broker("Helm", missing())
    assert lint().endswith("Failed: false")
    made = kept()
    assert set(made) == set(KEPT)
    for path, text in made.items():
        assert text == path.read_text(), f"run `python -m deploy.chart`: {path}"


def test_scaling_knows_the_partitions_the_threads_and_the_prefix_of_the_values(with_values: WithValues) -> None:
    scaling = {"enabled": True, "prefix": "news"}
    made = with_values({"partitions": 12, "fingerprint": {"threads": 3, "scaling": scaling}})
    [scaled] = [one["spec"] for one in made if one["kind"] == "ScaledObject"]
    [trigger] = scaled["triggers"]
    assert (scaled["maxReplicaCount"], trigger["metadata"]["threshold"]) == (12, "60")
    assert trigger["metadata"]["query"].count('{prefix="news"') == 3


def test_an_anti_affinity_of_a_role_replaces_that_of_the_chart(with_values: WithValues) -> None:
    of_judge = {"affinity": {"podAntiAffinity": {}}, "storageClass": ""}
    made = workloads(with_values({"judge": of_judge, "storageClass": "slow", "shards": 2}))
    judge, match = (made["StatefulSet", f"simstream-{role}"]["spec"] for role in ("judge", "match"))
    assert judge["template"]["spec"]["affinity"] == {"podAntiAffinity": {}}
    assert "storageClassName" not in judge["volumeClaimTemplates"][0]["spec"]
    assert match["template"]["spec"]["affinity"]["podAntiAffinity"]
    assert match["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "slow"


def test_helm_refuses_a_wrong_value_by_name(with_values: WithValues) -> None:
    with pytest.raises(HelmError, match="shards"):
        with_values({"shards": 3})


def test_alerts_and_dashboard_reach_the_cluster_as_they_are(with_values: WithValues) -> None:
    found = with_values({"monitoring": {"rules": True, "dashboard": True, "labels": {"release": "prometheus"}}})
    made = {one["kind"] + one["metadata"]["name"]: one for one in found}
    assert made["PrometheusRulesimstream"]["spec"] == yaml.safe_load((CHART / "files/alerts.yml").read_text())
    labels = made["PrometheusRulesimstream"]["metadata"]["labels"]
    assert (labels["release"], labels["app.kubernetes.io/name"]) == ("prometheus", "simstream")
    dashboard = made["ConfigMapsimstream-dashboard"]["data"]["simstream.json"]
    assert dashboard == (CHART / "files/dashboard.json").read_text()
