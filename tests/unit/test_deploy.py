"""What is deployed, as far as it can be checked without a container engine or a cluster.

Schemas: compose-spec's own parser, hadolint, and Kubernetes' strict schemas. Then every name in these files against
what it names: commands, settings, ports, paths, services, topics, groups.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose

from deploy.kafka import acls
from deploy.kafka.acls import GRANTS
from deploy.registry import registry
from simstream.cli import main
from simstream.index.shard import check_count
from simstream.setting_groups import ExtractSettings
from simstream.settings import Settings, resolve, unknown_variables
from simstream.telemetry.health import ServiceHealth
from simstream.telemetry.http import HttpServer
from simstream.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = "1.37"
KUBERNETES_FILES = DEPLOY / "kubernetes"
KUSTOMIZATION = KUBERNETES_FILES / "kustomization.yaml"
MATCHERS = KUBERNETES_FILES / "matchers"
"""The optional component for an index on matchers."""
HADOLINT = Path(sys.executable).with_name("hadolint")
PORT = Settings().http_port


def check_command(arguments: Sequence[str]) -> None:
    """Raise click.UsageError where the real command line does not take it."""
    command: click.Command = main.main
    context, rest = main.main.make_context("simstream", ["--help"], resilient_parsing=True), list(arguments)
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, rest)
        if found is None:
            raise click.UsageError(f"there is no command {name}")
        command = found
    with command.make_context(name, rest, parent=context):
        pass


def check_settings(variables: dict[str, str], file: Path | None = None) -> Settings:
    assert unknown_variables(variables) == []
    return resolve({}, variables, str(file) if file else None).settings


def test_a_wrong_command_is_noticed() -> None:
    check_command(["serve", "--roles", "judge", "--state", "/state"])
    for wrong in (["serve", "--rolls", "judge"], ["topics", "make"], ["surve"]):
        with pytest.raises(click.UsageError):
            check_command(wrong)


# --- the image


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions in order, lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line]


def of(kind: str) -> list[str]:
    return [text for name, text in instructions() if name == kind]


def image_variables() -> dict[str, str]:
    """What the last stage sets."""
    last = instructions()[[name for name, _ in instructions()].index("FROM", 1) :]
    pairs = [pair for name, text in last if name == "ENV" for pair in shlex.split(text)]
    return dict(pair.split("=", 1) for pair in pairs)


def test_the_dockerfile_is_one_that_hadolint_likes() -> None:
    done = subprocess.run([HADOLINT, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [part for text in of("COPY") if "--from" not in text for part in text.split()[:-1]]
    assert copied
    for path in copied:
        assert (ROOT / path).exists(), path
        assert any(fnmatch(path, pattern) for pattern in allowed), path
    assert "!" not in "".join(allowed)


@pytest.mark.parametrize(
    ("extras", "more"), [("", []), ("tracing", ["tracing"]), ("msk,tracing", ["msk", "tracing"])]
)
def test_the_image_gets_the_extras_of_its_build_argument_by_their_hashes(
    extras: str, more: list[str], tmp_path: Path
) -> None:
    assert 'EXTRAS=""' in of("ARG")
    [command] = [text for text in of("RUN") if "pip install" in text]
    for name, text in (("python", ""), ("pip", 'echo "$*"\n[ "${6:-}" != requirements-nothing.txt ]')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def run(extras: str) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "EXTRAS": extras}
        return subprocess.run(["sh", "-c", command], env=variables, capture_output=True, text=True, check=False)

    *locks, package = run(extras).stdout.splitlines()
    wanted = [f"--require-hashes -r requirements-{name}.txt" for name in ["image", *more]]
    assert [line.partition("--no-compile ")[2] for line in locks] == wanted
    assert package.endswith("--no-deps .")
    wrong = run(f"nothing,{extras}")
    assert wrong.returncode != 0
    assert "--no-deps" not in wrong.stdout


def test_kernels_are_compiled_for_the_installed_package_not_for_the_sources_beside_the_script() -> None:
    [folder] = [text.split()[-1] for text in of("COPY") if "deploy/warm.py" in text]
    [sources] = [text.split()[-1] for text in of("COPY") if text.startswith("stream ")]
    assert sources == "stream"  # in the working folder
    assert folder.startswith("/")
    assert folder.rstrip("/") not in of("WORKDIR")
    assert f"python {folder}warm.py" in of("RUN")


def test_the_image_runs_without_rights_and_names_settings_and_the_port_that_exist() -> None:
    assert of("USER") == ["65532:65532"]
    assert of("EXPOSE") == [str(PORT)]
    ours = {name: value for name, value in image_variables().items() if name.startswith("SIMSTREAM_")}
    assert str(check_settings(ours).cache_folder) == "/opt/simstream/tables"
    [healthcheck], [entrypoint] = of("HEALTHCHECK"), of("ENTRYPOINT")
    assert "/health/live" in healthcheck
    assert entrypoint == '["entrypoint.sh"]'


def test_the_health_check_says_what_the_health_port_says(tmp_path: Path) -> None:
    [healthcheck] = of("HEALTHCHECK")
    command = yaml.safe_load(healthcheck.partition("CMD ")[2])
    health = ServiceHealth()
    with HttpServer("127.0.0.1", 0, Metrics(), health) as server:

        def check() -> int:
            variables = {"SIMSTREAM_HTTP_PORT": str(server.port), "PATH": os.path.dirname(sys.executable)}
            return subprocess.run(command, env=variables, capture_output=True, check=False).returncode

        assert check() == 0
        health.expect("judge", patience_s=-1e6)  # a loop that has not turned for long
        assert check() != 0
    assert check() != 0


def test_the_entrance_puts_the_kernels_where_they_can_be_written_and_runs_the_command(tmp_path: Path) -> None:
    there = tmp_path / "image" / "kernels-1"
    there.mkdir(parents=True)
    (there / "k.nbi").write_bytes(b"compiled")
    simstream = tmp_path / "simstream"
    simstream.write_text('#!/bin/sh\necho "$# $2 $NUMBA_CACHE_DIR"\n')
    simstream.chmod(0o755)
    variables = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "KERNELS": str(tmp_path / "image"),
        "NUMBA_CACHE_DIR": str(tmp_path / "new" / "cache"),
    }
    assert set(variables) <= set(image_variables())
    for _ in range(2):  # a container that is started again
        done = subprocess.run(
            [DEPLOY / "entrypoint.sh", "serve", "a b"], env=variables, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"2 a b {tmp_path / 'new' / 'cache'}\n"
    assert (tmp_path / "new/cache/kernels-1/k.nbi").read_bytes() == b"compiled"
    done = subprocess.run(
        [DEPLOY / "entrypoint.sh", "serve", "a b"],
        env={**variables, "NUMBA_CACHE_DIR": "/dev/full/cache"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2 a b /dev/full/cache\n"
    assert done.stderr.splitlines() == [
        "simstream: the kernels cannot be copied to /dev/full/cache, so they are compiled: make room there"
    ]


@pytest.mark.parametrize(
    ("chosen", "lacking", "taken"),
    [
        ("x86-64-v2", "", "x86-64-v2"),
        ("x86-64-v3", "AVX2", "the host's"),
        ("x86-64-v9", "", "the host's"),
        ("generic", "AVX2", "generic"),
    ],
)
def test_the_entrance_has_kernels_compiled_for_a_host_that_lacks_instructions_of_the_images_cpu(
    chosen: str, lacking: str, taken: str, tmp_path: Path
) -> None:
    """Else a process of the image ends by SIGILL at its first kernel, without a word."""
    (tmp_path / "image").mkdir()
    simstream = tmp_path / "simstream"
    simstream.write_text("""#!/bin/sh\necho "${NUMBA_CPU_NAME-the host's}${NUMBA_CPU_FEATURES-}"\n""")
    simstream.chmod(0o755)
    variables = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "KERNELS": str(tmp_path / "image"),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "NUMBA_CPU_NAME": chosen,
        "NUMBA_CPU_FEATURES": "",
    }
    assert set(variables) <= set(image_variables())
    loader = subprocess.run(["/lib64/ld-linux-x86-64.so.2", "--help"], capture_output=True, text=True, check=False)
    if "x86-64-v2" not in loader.stdout:
        pytest.skip("glibc tells of the CPU from version 2.33 on, as the image's does")
    done = subprocess.run(
        [DEPLOY / "entrypoint.sh"],
        env={**variables, "GLIBC_TUNABLES": f"glibc.cpu.hwcaps=-{lacking}" if lacking else ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{taken}\n"
    said = [
        f"simstream: this CPU lacks instructions of {chosen}, so kernels are compiled at each start: "
        "build the image with --build-arg CPU=generic"
    ]
    assert done.stderr.splitlines() == (said if taken != chosen else [])


# --- docker-compose.yml


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    text = (ROOT / "docker-compose.yml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def simstreams(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in compose["services"].items() if one["image"].startswith("simstream")}


def test_the_compose_file_keeps_to_its_specification(compose: dict[str, Any]) -> None:
    def valid(document: dict[str, Any]) -> None:
        PyCompose.from_json(json.dumps(document)).validate()

    valid(compose)
    with pytest.raises(ValueError, match="sometimes"):
        valid({**compose, "services": {"x": {"image": "x", "restart": "sometimes"}}})


def test_what_the_compose_file_names_within_itself_is_there(compose: dict[str, Any]) -> None:
    services, volumes = compose["services"], compose["volumes"]
    for one in services.values():
        needed = one.get("depends_on", {})
        assert set(needed) <= set(services)
        for other, how in needed.items() if isinstance(needed, dict) else ():
            if how["condition"] == "service_healthy":
                assert services[other]["healthcheck"]["test"]
            else:
                assert how["condition"] == "service_completed_successfully"
                assert "restart" not in services[other]
        for mount in one.get("volumes", ()):
            source, target, *_ = mount.split(":")
            assert target.startswith("/")
            assert source in volumes or (ROOT / source).exists(), source
        for port in one.get("ports", ()):
            assert port.startswith("127.0.0.1:"), "nothing of it is for other machines"


def test_compose_runs_commands_and_settings_that_exist_without_rights(compose: dict[str, Any]) -> None:
    found = simstreams(compose)
    assert set(found) == {"topics", "fingerprint", "judge", "news", "feed"}
    for one in found.values():
        check_command(one["command"])
        settings = check_settings(one["environment"])
        assert settings.log == "kafka://kafka:9092"
        assert (settings.http_host, settings.http_port) == ("0.0.0.0", PORT)
        assert one["read_only"]
        assert one["cap_drop"] == ["ALL"]
        assert one["build"]["dockerfile"] == "deploy/Dockerfile"
        if one["command"][0] in ("serve", "news"):
            assert int(one["stop_grace_period"].removesuffix("s")) > settings.stop_timeout_s
    assert "INSIDE://kafka:9092" in compose["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def nbytes(text: str) -> int:
    """`512m`, `2g`, `2Gi` or `768Mi` in bytes."""
    units = {"m": 1 << 20, "g": 1 << 30, "Mi": 1 << 20, "Gi": 1 << 30}
    found = re.fullmatch(r"(\d+)(\w+)", text)
    assert found
    return int(found[1]) * units[found[2]]


def worst_bytes(extract: ExtractSettings) -> int:
    """What processes that take HTML apart may have together, and half a gigabyte for the one that owns them."""
    return extract.workers * extract.memory_bytes + (512 << 20)


def test_compose_limits_the_memory_of_every_service_and_extraction_fits_into_it(
    compose: dict[str, Any],
) -> None:
    assert all(nbytes(one["mem_limit"]) >= 512 << 20 for one in compose["services"].values())
    fingerprint = simstreams(compose)["fingerprint"]
    extract = check_settings(fingerprint["environment"]).extract
    assert "SIMSTREAM_EXTRACT_WORKERS" in fingerprint["environment"], "its default goes with the machine's cores"
    assert nbytes(fingerprint["mem_limit"]) >= worst_bytes(extract)
    news = simstreams(compose)["news"]
    one = ExtractSettings(1, memory_bytes=check_settings(news["environment"]).extract.memory_bytes)
    assert nbytes(news["mem_limit"]) >= worst_bytes(one)


def test_prometheus_of_the_compose_file_scrapes_every_process(compose: dict[str, Any]) -> None:
    config = yaml.safe_load((DEPLOY / "compose/prometheus.yml").read_text())
    [scrape] = config["scrape_configs"]
    [names] = scrape["dns_sd_configs"]
    serving = [name for name, one in simstreams(compose).items() if one["command"][0] == "serve"]
    assert sorted(names["names"]) == sorted(serving)
    assert names["port"] == PORT


# --- Kubernetes


def manifests(folder: Path) -> list[Path]:
    """The files of a folder that hold documents."""
    paths = set(folder.glob("*.yaml")) - {folder / KUSTOMIZATION.name} - set(folder.glob("*.values.yaml"))
    return sorted(paths)


def documents(folder: Path = KUBERNETES_FILES) -> list[dict[str, Any]]:
    return [one for path in manifests(folder) for one in yaml.safe_load_all(path.read_text()) if one]


def named(kind: str, name: str, folder: Path = KUBERNETES_FILES) -> dict[str, Any]:
    [found] = [one for one in documents(folder) if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def pods(folder: Path = KUBERNETES_FILES) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each workload's kind, its pod template and its one container."""
    for one in documents(folder):
        if "template" in one.get("spec", {}):
            [container] = one["spec"]["template"]["spec"]["containers"]
            yield one["kind"], one["spec"]["template"], container


CUSTOM = {"ScaledObject", "PodMonitor"}
"""Kinds that operators bring: their schemas are not Kubernetes' own."""


def test_manifests_keep_to_the_strict_schemas() -> None:
    kinds = set()
    for document in documents():
        kinds.add(document["kind"])
        if document["kind"] not in CUSTOM:
            kubernetes_validate.validate(document, KUBERNETES, strict=True)
    assert kinds > CUSTOM
    wrong = named("Deployment", "simstream-fingerprint")
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


@pytest.mark.parametrize("folder", [KUBERNETES_FILES, MATCHERS], ids=["all", "matchers"])
def test_pods_run_existing_commands_and_have_their_mounts(folder: Path) -> None:
    for kind, template, container in pods(folder):
        check_command(container["args"])
        spec = template["spec"]
        there = {volume["name"] for volume in spec["volumes"]}
        if kind == "StatefulSet":
            there |= {"state"}
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == there
        assert {"/etc/simstream", "/etc/kafka", "/tmp"} <= mounted
        if "--state" in container["args"]:
            assert container["args"][container["args"].index("--state") + 1] in mounted
        assert spec["securityContext"]["runAsNonRoot"]
        assert [spec["securityContext"][name] for name in ("runAsUser", "runAsGroup")] == [65532, 65532]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_settings_of_the_pods_are_settings(tmp_path: Path) -> None:
    text = (KUBERNETES_FILES / "simstream.toml").read_text()
    for name in ("username", "password", "ca.crt"):
        (tmp_path / name).write_text(f"{name} of a test")
    file = tmp_path / "simstream.toml"
    file.write_text(text.replace("/etc/kafka", str(tmp_path)))
    settings = check_settings({}, file)
    assert (settings.http_host, settings.http_port) == ("0.0.0.0", PORT)
    assert settings.kafka["security.protocol"] == "SASL_SSL"
    for kind, template, container in pods():
        assert container["env"] == [{"name": "SIMSTREAM_CONFIG", "value": "/etc/simstream/simstream.toml"}]
        if kind != "Job":
            assert template["spec"]["terminationGracePeriodSeconds"] > settings.stop_timeout_s
            probe = container["startupProbe"]
            assert probe["periodSeconds"] * probe["failureThreshold"] > settings.give_up_s
    rules = named("NetworkPolicy", "simstream")["spec"]["egress"]
    ports = [port["port"] for rule in rules for port in rule["ports"]]
    assert int(settings.log.rpartition(":")[2]) in ports


def test_each_role_has_only_an_account_of_its_own() -> None:
    secrets = {}
    for kind, template, _ in pods():
        volumes = template["spec"]["volumes"]
        [secrets[kind]] = [one["secret"]["secretName"] for one in volumes if "secret" in one]
    accounts = {"Job": "operator", "Deployment": "fingerprint", "StatefulSet": "judge"}
    assert secrets == {kind: f"simstream-kafka-{role}" for kind, role in accounts.items()}
    assert set(accounts.values()) <= set(GRANTS)
    publishing = {grant.name for grant in GRANTS["fingerprint"] if "Write" in grant.operations}
    assert not publishing & {"verdicts", "positions", "judge"}
    text = KUSTOMIZATION.read_text()
    [roles] = re.findall(r"for role in ([\w ]+);", text)
    assert sorted(roles.split()) == sorted(accounts.values())


def test_fingerprinters_have_the_memory_that_their_settings_let_extraction_take(tmp_path: Path) -> None:
    text = (KUBERNETES_FILES / "simstream.toml").read_text()
    file = tmp_path / "simstream.toml"
    file.write_text(text.partition("[kafka]")[0])
    [limit] = [one["resources"]["limits"]["memory"] for kind, _, one in pods() if kind == "Deployment"]
    assert "workers" in text, "its default goes with the cores of the machine, not of the pod"
    assert nbytes(limit) >= worst_bytes(check_settings({}, file).extract)


@pytest.mark.parametrize("folder", [KUBERNETES_FILES, MATCHERS], ids=["all", "matchers"])
def test_probes_ask_for_what_the_health_port_answers(folder: Path) -> None:
    health = ServiceHealth()
    health.turn("judge")
    asked = set()
    with HttpServer("127.0.0.1", 0, Metrics(), health) as server:
        for kind, template, container in pods(folder):
            if kind == "Job":
                continue
            assert container["ports"] == [{"name": "http", "containerPort": PORT}]
            assert template["metadata"]["annotations"]["prometheus.io/port"] == str(PORT)
            asked.add(template["metadata"]["annotations"]["prometheus.io/path"])
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                assert container[probe]["httpGet"]["port"] == "http"
                asked.add(container[probe]["httpGet"]["path"])
        assert len(asked) == 4
        for path in asked:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=10) as answer:
                assert answer.status == 200


def test_selectors_find_the_pods_that_they_are_for() -> None:
    labels = {kind: template["metadata"]["labels"] for kind, template, _ in pods()}
    for kind, name in (
        ("Deployment", "simstream-fingerprint"),
        ("PodDisruptionBudget", "simstream-fingerprint"),
    ):
        assert named(kind, name)["spec"]["selector"]["matchLabels"] == labels["Deployment"]
    assert named("Service", "simstream-fingerprint")["spec"]["selector"] == labels["Deployment"]
    judge = labels["StatefulSet"]
    for kind in ("StatefulSet", "PodDisruptionBudget"):
        assert named(kind, "simstream-judge")["spec"]["selector"]["matchLabels"] == judge
    assert named("Service", "simstream-judge")["spec"]["selector"] == judge
    assert named("StatefulSet", "simstream-judge")["spec"]["serviceName"] == "simstream-judge"
    everyone = named("NetworkPolicy", "simstream")["spec"]["podSelector"]["matchLabels"]
    assert everyone == named("PodMonitor", "simstream")["spec"]["selector"]["matchLabels"]
    assert all(everyone.items() <= one.items() for one in labels.values())


def test_fingerprinters_scale_by_the_seconds_of_work_that_wait_up_to_the_partitions() -> None:
    scaled = named("ScaledObject", "simstream-fingerprint")["spec"]
    [trigger] = scaled["triggers"]
    query = trigger["metadata"]["query"]
    known = {metric.name for metric in Metrics().described}
    assert {name.removesuffix("_sum") for name in re.findall(r"simstream_\w+", query)} <= known
    settings = tomllib.loads((KUBERNETES_FILES / "simstream.toml").read_text())
    assert set(re.findall(r'prefix="([^"]*)"', query)) == {settings["prefix"]}
    target = named(scaled["scaleTargetRef"]["kind"], scaled["scaleTargetRef"]["name"])
    assert "replicas" not in target["spec"], "the scaler and `apply` would fight over it"
    arguments = target["spec"]["template"]["spec"]["containers"][0]["args"]
    threads = int(arguments[arguments.index("--threads") + 1])
    assert int(trigger["metadata"]["threshold"]) == 20 * threads
    topics = next(container["args"] for kind, _, container in pods() if kind == "Job")
    assert scaled["maxReplicaCount"] == int(topics[topics.index("--partitions") + 1])


def test_changed_settings_change_the_config_maps_name_and_so_roll_the_pods() -> None:
    made = yaml.safe_load(KUSTOMIZATION.read_text())
    assert "generatorOptions" not in made
    [generated] = made["configMapGenerator"]
    assert "disableNameSuffixHash" not in generated["options"]
    assert all((KUBERNETES_FILES / file).is_file() for file in generated["files"])
    assert set(made["resources"]) == {path.name for path in manifests(KUBERNETES_FILES)}
    assert not [one for one in documents() if one["kind"] == "ConfigMap"]
    for kind, template, container in pods():
        [volume] = [one for one in template["spec"]["volumes"] if "configMap" in one]
        assert volume["configMap"] == {"name": generated["name"]}
        folder = next(m["mountPath"] for m in container["volumeMounts"] if m["name"] == volume["name"])
        read = [one["value"] for one in container["env"] if one["name"] == "SIMSTREAM_CONFIG"]
        assert read == [f"{folder}/{file}" for file in generated["files"]]
        if kind == "Job":  # its pod cannot be changed: it must be gone by the next `apply`
            assert named(kind, "simstream-topics")["spec"]["ttlSecondsAfterFinished"] <= 300


def test_the_changes_that_the_kustomization_shows_fit_the_manifests() -> None:
    shown = re.findall(r"^#   ((?:images|replicas|patches):|  .*)$", KUSTOMIZATION.read_text(), re.MULTILINE)
    changes = yaml.safe_load("\n".join(shown[shown.index("images:") :]))
    [image], [replicas], [patch] = changes["images"], changes["replicas"], changes["patches"]
    assert {container["image"].partition(":")[0] for _, _, container in pods()} == {image["name"]}
    assert "replicas" not in named("Deployment", replicas["name"])["spec"]
    for change in yaml.safe_load(patch["patch"]):
        place: Any = named(patch["target"]["kind"], patch["target"]["name"])
        *path, last = change["path"].split("/")[1:]
        for step in path:
            place = place[int(step)] if isinstance(place, list) else place[step]
        assert (last in place) == (change["op"] == "replace")


# --- the optional component: an index on matchers


def test_the_default_deployment_has_no_matchers() -> None:
    assert "components" not in yaml.safe_load(KUSTOMIZATION.read_text())
    assert not any("match" in json.dumps(one["metadata"]) for one in documents())


def patched() -> list[dict[str, Any]]:
    """The default's documents as the component changes them; each patch has one target."""
    made = documents()
    component = yaml.safe_load((MATCHERS / KUSTOMIZATION.name).read_text())
    assert component["kind"] == "Component"
    assert {*component["resources"]} == {path.name for path in manifests(MATCHERS)}
    for patch in component["patches"]:
        kind, name = patch["target"]["kind"], patch["target"]["name"]
        [target] = [one for one in made if one["kind"] == kind and one["metadata"]["name"] == name]
        for change in yaml.safe_load(patch["patch"]):
            assert change["op"] == "replace"
            *path, last = change["path"].split("/")[1:]
            place = target
            for step in path:
                place = place[int(step)] if isinstance(place, list) else place[step]
            assert last in place
            place[last] = change["value"]
    return made


def test_the_component_keeps_to_the_strict_schemas_and_runs_existing_commands() -> None:
    for document in documents(MATCHERS) + [one for one in patched() if one["kind"] not in CUSTOM]:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
        if "template" in document.get("spec", {}):
            check_command(document["spec"]["template"]["spec"]["containers"][0]["args"])


def test_the_topic_the_judges_and_the_matchers_agree_on_the_shards() -> None:
    numbers = [
        int(arguments[arguments.index("--shards") + 1])
        for one in patched()
        if "template" in one.get("spec", {})
        for arguments in [one["spec"]["template"]["spec"]["containers"][0]["args"]]
        if "--shards" in arguments
    ]
    assert numbers == [numbers[0]] * 2
    assert named("StatefulSet", "simstream-match", MATCHERS)["spec"]["replicas"] <= check_count(numbers[0])
    changed = {one["metadata"]["name"] for one in patched() if one not in documents()}
    assert changed == {"simstream-topics", "simstream-judge"}


def test_a_matcher_keeps_its_shards_by_the_name_of_its_pod_and_has_an_account_of_its_own() -> None:
    [(kind, template, container)] = pods(MATCHERS)
    assert kind == "StatefulSet", "a Deployment has other names after each restart"
    config, instance = container["env"]
    assert config == {"name": "SIMSTREAM_CONFIG", "value": "/etc/simstream/simstream.toml"}
    assert instance["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert check_settings({instance["name"]: "simstream-match-0"}).instance == "simstream-match-0"
    assert template["spec"]["terminationGracePeriodSeconds"] > Settings().stop_timeout_s
    [secret] = [one["secret"]["secretName"] for one in template["spec"]["volumes"] if "secret" in one]
    assert secret.removeprefix("simstream-kafka-") == "match"
    writing = {grant.name for grant in GRANTS["match"] if "Write" in grant.operations}
    assert writing == {"matches"}
    text = (MATCHERS / KUSTOMIZATION.name).read_text()
    assert f"create secret generic {secret} " in text


def test_matchers_are_on_machines_of_their_own_and_leave_one_by_one() -> None:
    matchers = named("StatefulSet", "simstream-match", MATCHERS)["spec"]
    labels = matchers["template"]["metadata"]["labels"]
    assert matchers["selector"]["matchLabels"] == labels
    budget = named("PodDisruptionBudget", "simstream-match", MATCHERS)["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    assert named("Service", matchers["serviceName"], MATCHERS)["spec"]["selector"] == labels
    affinity = matchers["template"]["spec"]["affinity"]["podAntiAffinity"]
    [rule] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule == {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    everyone = named("NetworkPolicy", "simstream")["spec"]["podSelector"]["matchLabels"]
    assert everyone.items() <= labels.items()


def test_programs_without_what_they_need_say_so_in_a_line_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "missing", lambda: ["openjdk-17-jre-headless", "maven"])
    monkeypatch.setattr("sys.argv", ["registry"])
    assert registry.main() == 1
    assert acls.main(["--user", "jury=User:jury"]) == 2
    assert acls.main(["--verdicts-topic", "simstream.positions"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "registry: NO REGISTRY. Install: apt-get install openjdk-17-jre-headless maven"
    assert said[1].startswith("acls: there is no role 'jury': use fingerprint, judge")
    assert said[2].startswith(
        "acls: verdicts_topic is simstream.positions, a topic that the service uses otherwise"
    )
