"""The whole service over a real broker that demands TLS and proof of who one is, and grants only what is listed."""

from __future__ import annotations

import json
import secrets
import subprocess
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from deploy.kafka import acls
from deploy.kafka.acls import GRANTS, GROUP, QUIET, TOPIC, TRANSACTION, AclGrant, grants_of
from deploy.kafka.jars import download
from deploy.kafka.secured import ADMIN, SecuredBroker, authority_of_a_stranger
from simstream.cli.main import invoke
from simstream.client import Client
from simstream.errors import NotPermitted
from simstream.log.base import Log, OutgoingVerdict
from simstream.log.committed_records import committed
from simstream.log.options import FINGERPRINTS, MATCHES, NAMED, PAGES, POSITIONS, VERDICTS, LogOptions, setting_of
from tests.contract.helpers import toml, variables
from tests.e2e import pages
from tests.e2e.harness import Done, Program, all_verdicts
from tests.kafka_fixtures import TopicPlace, need_broker
from tests.waiting import until

pytestmark = pytest.mark.kafka
KINDS = {TOPIC: ResourceType.TOPIC, GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}
OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}
COUNT = 60
NOT_USED_HERE = {
    QUIET,
    *[one for one in GRANTS["fingerprint"] if one.name in ("dead-letters", "positions", "verdicts")],
    *[one for one in GRANTS["match"] if one.name == "matchers-3"],
}


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredBroker]:
    need_broker()
    with SecuredBroker({role: f"pw-{role}-{secrets.token_hex(8)}" for role in (*GRANTS, "all")}) as running:
        yield running


@pytest.fixture
def prefix(secured: SecuredBroker) -> Iterator[str]:
    """A fresh prefix. The grants of a test end with it."""
    yield f"s{secrets.token_hex(4)}"
    revoke_all(secured)


def everything(user: str | None = None) -> AclBindingFilter:
    pattern = ResourcePatternType.ANY
    return AclBindingFilter(
        ResourceType.ANY, None, pattern, user and f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY
    )


def revoke_all(secured: SecuredBroker) -> None:
    admin = AdminClient(secured.admin())
    for future in admin.delete_acls([everything()]).values():
        future.result()
    until_permissions(admin, lambda granted: not granted)


def bindings(grants: Iterable[AclGrant], options: LogOptions, user: str) -> list[AclBinding]:
    return [
        AclBinding(
            KINDS[one.kind],
            one.full_name(options),
            ResourcePatternType.PREFIXED if one.is_prefix else ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            OPERATIONS[operation],
            AclPermissionType.ALLOW,
        )
        for one in grants
        for operation in one.operations
    ]


def allow(secured: SecuredBroker, prefix: str, *roles: str, user: str | None = None) -> None:
    """Grant these roles their listed permissions, each to the user of its name, or all to one user."""
    wanted = [one for role in roles for one in bindings(GRANTS[role], LogOptions(prefix), user or role)]
    grant(secured, list(dict.fromkeys(wanted)))


def grant(secured: SecuredBroker, wanted: list[AclBinding]) -> None:
    admin = AdminClient(secured.admin())
    for future in admin.create_acls(wanted).values() if wanted else ():
        future.result()
    until_permissions(admin, lambda granted: granted >= set(wanted))


def until_permissions(admin: AdminClient, are_there: Callable[[set[AclBinding]], bool]) -> None:
    """Wait until the broker has applied what its controller has acknowledged, which is a moment later."""
    until(lambda: are_there(set(admin.describe_acls(everything()).result())), "the broker has the permissions")


def as_user(secured: SecuredBroker, folder: Path, user: str) -> tuple[str, str]:
    """`--config FILE` of a user with the password in another file."""
    (folder / f"{user}.secret").write_text(secured.users[user] + "\n")
    return "--config", str(toml(folder, user, secured.by_password(user) | {"sasl.password.file": f"{user}.secret"}))


def by_scram(secured: SecuredBroker, folder: Path, cache: Path, prefix: str) -> Program:
    return Program(folder, cache, TopicPlace(secured.address, prefix))


def by_certificate(secured: SecuredBroker, folder: Path, cache: Path, prefix: str) -> Program:
    return Program(folder, cache, TopicPlace(secured.mutual_address, prefix))


def as_admin(secured: SecuredBroker, prefix: str, **options: object) -> Log:
    return TopicPlace(secured.mutual_address, prefix).open(client=secured.by_certificate(ADMIN), **options)


def published(secured: SecuredBroker, prefix: str, **options: object) -> int:
    with as_admin(secured, prefix, **options) as log:
        return len(all_verdicts(log))


@pytest.mark.long
def test_each_role_works_by_password_with_no_more_than_its_listed_permissions(
    secured: SecuredBroker, prefix: str, tmp_path: Path, cache: Path
) -> None:
    allow(secured, prefix, *GRANTS)
    program = by_scram(secured, tmp_path, cache, prefix)
    user = {role: as_user(secured, tmp_path, role) for role in GRANTS}
    program.good("topics", "create", "--partitions", 2, "--shards", 2, *user["operator"])
    program.good("feed", pages.write(tmp_path / "pages.jsonl", COUNT), *user["feed"])
    state = ("--state", tmp_path / "state")
    with (
        program.serve("--roles", "fingerprint", *user["fingerprint"]) as fingerprinter,
        program.serve("--roles", "match", *state, *user["match"]) as matcher,
        program.serve("--roles", "judge", *state, *user["judge"]) as judge,
        program.serve("--roles", "query", "--query-port", 0, *user["query"]) as query,
    ):
        judge.until(lambda: published(secured, prefix) == COUNT, "every page has its verdict")
        program.good("status", *user["operator"])
        allow(secured, prefix, "feed", "reader", user="all")
        with Client(secured.address, prefix, config=as_user(secured, tmp_path, "all")[1]) as client:
            assert client.submit({"id": "by the client", "text": ""}, timeout=60).result().verdict == "too_short"
        with program.news(*user["news"]) as news:
            news.ready()
            stories = f"http://127.0.0.1:{news.port}/api/stories"
            news.until(lambda: bool(told(stories)), "it tells stories")
            assert_no_secret(secured, news.output)
            assert news.end() == 0, news.output
        query.ready()
        page = json.dumps({"id": "by a question", "text": "too few words"}).encode()
        url = f"http://127.0.0.1:{query.query_port()}/judge?timeout=60"
        request = urllib.request.Request(url, page, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=90) as answer:
            assert json.load(answer)["verdict"] == "too_short"
        for service in (fingerprinter, judge, query, matcher):
            for path in ("/metrics", "/health", "/health/live", "/health/ready", "/nothing"):
                assert_no_secret(secured, service.get(path)[1])
            assert service.end() == 0, service.output
            assert_no_secret(secured, service.output)
    lines = program.good("verdicts", "--json", *user["reader"]).splitlines()
    assert len(lines) == COUNT + 2
    some = next(one["id"] for one in map(json.loads, lines) if one["verdict"] == "near_duplicate")
    assert some in program.good("explain", some, *user["operator"])
    new = f"{prefix}-new"
    grant(
        secured,
        [one for role in ("operator", "judge") for one in bindings(GRANTS[role], LogOptions(new), "operator")],
    )
    program.good("replay", "--to", new, *user["operator"])
    assert published(secured, new) == COUNT + 2
    program.good("dead-letters", "replay", "--again", *user["operator"])
    program.good("source", "rewind", *user["operator"])
    admin, where = AdminClient(secured.admin()), TopicPartition(f"{prefix}.fingerprints", 0, -1)
    admin.delete_records([where])[where].result()
    rights = AclBindingFilter(
        ResourceType.TOPIC, f"{prefix}.positions", ResourcePatternType.LITERAL, "User:fingerprint", None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    [taken] = admin.delete_acls([rights]).values()
    taken.result()
    until_permissions(
        admin, lambda left: all((one.name, one.principal) != (rights.name, rights.principal) for one in left)
    )
    assert f"{prefix}.positions" in program.refused("--roles", "fingerprint", *user["fingerprint"])
    allow(secured, prefix, "fingerprint")
    with program.serve("--roles", "fingerprint", *user["fingerprint"]) as fingerprinter:
        fingerprinter.ready()
        assert fingerprinter.end() == 0, fingerprinter.output


def test_the_whole_service_works_by_client_certificate_set_by_variables(
    secured: SecuredBroker, prefix: str, tmp_path: Path, cache: Path
) -> None:
    allow(secured, prefix, *GRANTS, user="all")
    program = by_certificate(secured, tmp_path, cache, prefix)
    me = variables(secured.by_certificate("all"))
    program.good("topics", "create", "--partitions", 1, **me)
    program.good("feed", pages.write(tmp_path / "pages.jsonl", COUNT), **me)
    with program.serve(**me) as service:
        service.until(lambda: published(secured, prefix) == COUNT, "every page has its verdict")
        program.good("status", **me)
        assert service.end() == 0
    lines = program.good("verdicts", "--json", **me).splitlines()
    assert len(lines) == COUNT
    assert json.loads(lines[0])["id"] in program.good("explain", json.loads(lines[0])["id"], **me)


@pytest.mark.parametrize("all_named", [False, True])
def test_a_topic_of_ones_own_needs_no_more_than_read(
    secured: SecuredBroker, prefix: str, tmp_path: Path, cache: Path, all_named: bool
) -> None:
    with as_admin(secured, f"their-{prefix}") as log:
        log.create_topics(1)
        theirs = log.topic(PAGES).name
        with log.open_appender(PAGES) as appender:
            for line in pages.lines(COUNT):
                appender.append(line)
    named = {topic: f"{topic}.of-{prefix}" for topic in NAMED if topic != PAGES} if all_named else {}
    names = LogOptions(prefix, **{setting_of(topic): name for topic, name in (named | {PAGES: theirs}).items()})
    grants = [one for role in ("fingerprint", "judge", "operator") for one in grants_of(role, names)]
    needed = [one for one in grants if one != AclGrant(TOPIC, "pages", ("Write",), "dead-letters replay")]
    grant(secured, list(dict.fromkeys(bindings(needed, names, "all"))))
    program = by_scram(secured, tmp_path, cache, prefix)
    flags = [word for topic, name in (named | {PAGES: theirs}).items() for word in (f"--{topic}-topic", name)]
    me = (*flags, *as_user(secured, tmp_path, "all"))
    program.good("topics", "create", *me)
    with program.serve(*me) as service:
        service.until(
            lambda: published(secured, prefix, verdicts_topic=names.verdicts_topic) == COUNT,
            "every page has its verdict",
        )
        program.good("status", *me)
        assert service.end() == 0
    assert json.loads(program.good("status", "--json", *me))["verdicts"] == COUNT
    done = program.on_log("dead-letters", "replay", *me)
    assert done.returncode == 1
    assert f"on the topic {theirs}" in done.stderr.decode()


def test_a_refused_client_is_told_why_in_one_line_at_once(
    secured: SecuredBroker, prefix: str, tmp_path: Path, cache: Path
) -> None:
    password = {"sasl.password": secured.users["all"]}
    good = secured.by_password("all") | password
    stranger = authority_of_a_stranger(tmp_path / "stranger")
    forged = stranger.sign("all")
    by_certificate_of = {"ssl.certificate.location": str(forged.certificate), "ssl.key.location": str(forged.key)}
    only_trusting = {"security.protocol": "SSL", "ssl.ca.location": good["ssl.ca.location"]}
    wrong_name = secured.address.replace("localhost", "127.0.0.1")
    untrusted, no_tls = "is not trusted", "do not agree on TLS"
    for address, client, said in (
        (secured.address, good | {"sasl.password": "wrong-guess-1"}, "does not accept this user"),
        (secured.address, good | {"sasl.username": "nobody"}, "does not accept this user"),
        (secured.address, good | {"ssl.ca.location": str(stranger.certificate)}, untrusted),
        (wrong_name, good, untrusted),
        (secured.mutual_address, secured.by_certificate("all") | by_certificate_of, no_tls),
        (secured.mutual_address, only_trusting, no_tls),
    ):
        program = Program(tmp_path, cache, TopicPlace(address, prefix))
        done = program.on_log("topics", "create", **variables(client))
        assert_one_line(secured, done, 1, said)
    wrong = variables(good | {"sasl.password": "wrong-guess-1", "debug": "all"})
    program = by_scram(secured, tmp_path, cache, prefix)
    with program.serve(**wrong) as service:
        assert "does not accept this user" in service.failed()
        assert "wrong-guess-1" not in service.output


def told(url: str) -> list[object]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        found: list[object] = json.load(answer)["stories"]
    return found


def write_page(log: Log) -> None:
    with log.open_appender(PAGES) as pages_in:
        pages_in.append(b"{}")


def elect(log: Log) -> None:
    with log.join_election() as election:
        until(lambda: election.elected, "it is elected")


def read_pages(log: Log) -> None:
    with log.open_consumer() as source:
        until(lambda: source.poll(10, 0.1).started, "it has a partition")


def write_frame(log: Log) -> None:
    with log.open_appender(FINGERPRINTS) as out:
        out.append(b"x", partition=0)


def publish(log: Log) -> None:
    with log.open_publisher() as publisher:
        publisher.start()
        publisher.publish([OutgoingVerdict(b"a", b"{}", ())], b"position")


def hold_shards(log: Log) -> None:
    for copy in (1, 2):
        with log.join_matchers(None, copy) as member:
            until(lambda one=member: one.owned, "it has a shard")  # type: ignore[misc]


def write_answer(log: Log) -> None:
    with log.open_appender(MATCHES) as out:
        out.append(b"x", partition=0)


def read_answers(log: Log) -> None:
    list(committed(log, MATCHES, 10))


def read_verdicts(log: Log) -> None:
    list(committed(log, VERDICTS, 10))


def follow(log: Log) -> None:
    with log.open_publisher() as publisher:
        publisher.committed()
    for topic in (FINGERPRINTS, POSITIONS):
        list(committed(log, topic, 10))


ROLES: dict[str, list[Callable[[Log], None]]] = {
    "fingerprint": [read_pages, write_frame],
    "judge": [elect, publish, read_answers],
    "match": [follow, hold_shards, write_answer, read_answers],
    "query": [follow, write_page, read_verdicts],
    "feed": [write_page],
    "reader": [read_verdicts],
}
"""What each does with a broker."""


SECRET = "distinctive-7f3a"
SECRET_SETTINGS = (
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.jaas.config",
    "no.such.token",
)


@pytest.mark.parametrize("by", ["variable", "variable of a file", "table", "table of a file", "wrong table"])
def test_a_secret_in_any_setting_is_never_shown(
    secured: SecuredBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    by: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text(SECRET)
    for name in SECRET_SETTINGS:
        client = secured.by_password("all") | {"sasl.password": secured.users["all"]}
        client |= {f"{name}.file": "secret"} if "file" in by else {name: SECRET}
        if "file" in by:
            client.pop(name, None)
        given = variables(client) if by.startswith("variable") else {}
        content = toml(tmp_path, "simstream", {} if given else client)
        if by == "wrong table":
            content.write_text(f'[kafka]\n"{name}" = ["{SECRET}"]\n')
        with monkeypatch.context() as patched:
            for variable, value in given.items():
                patched.setenv(variable, value)
            codes = [
                invoke(["config", "--debug"]),
                invoke(["topics", "create", "--log", secured.address, "--debug"]),
            ]
        assert codes[0] in ((2,) if by == "wrong table" else (0, 2)), name  # 2: the client refuses it
        assert codes[1] in ((2,) if by == "wrong table" else (1, 2)), name
        said = "".join(capfd.readouterr())
        assert f"kafka.{name}" in said
        assert SECRET not in said, name


@pytest.mark.parametrize("role", ROLES)
def test_whatever_single_permission_is_missing_is_named_and_all_together_are_enough(
    secured: SecuredBroker, prefix: str, role: str
) -> None:
    with as_admin(secured, prefix) as log:
        log.create_topics(1, 2)
    client = secured.by_password(role) | {"sasl.password": secured.users[role]}
    place = TopicPlace(secured.address, prefix)
    refused = set()
    for taken in [None, *GRANTS[role]]:
        rest = [one for one in GRANTS[role] if one != taken]
        revoke_all(secured)
        grant(secured, bindings(rest, LogOptions(prefix), role))
        error = None
        try:
            with place.open(client=client) as log:
                for work in ROLES[role]:
                    work(log)
        except NotPermitted as caught:
            error = caught
        if taken is None:
            assert error is None
        elif error is not None:
            assert f"on the {taken.kind} {taken.full_name(LogOptions(prefix))}" in error.what
            assert f"--allow-principal User:{role} --operation " in error.todo
            refused.add(taken)
    assert set(GRANTS[role]) - refused <= NOT_USED_HERE


def test_a_role_that_lacks_a_permission_ends_in_one_line_that_names_it(
    secured: SecuredBroker, prefix: str, tmp_path: Path, cache: Path
) -> None:
    with as_admin(secured, prefix) as log:
        log.create_topics(1)
    grant(
        secured, bindings([one for one in GRANTS["judge"] if one.kind != TRANSACTION], LogOptions(prefix), "judge")
    )
    program = by_scram(secured, tmp_path, cache, prefix)
    with program.serve("--roles", "judge", *as_user(secured, tmp_path, "judge")) as service:
        last = service.failed()
        said = f"on the transactional-id {prefix}.judge: grant it: kafka-acls --add --allow-principal User:judge"
        assert last.startswith("simstream: Kafka does not permit Write ")
        assert said in last
        assert_no_secret(secured, service.output)


def assert_one_line(secured: SecuredBroker, done: Done, code: int, said: str) -> None:
    error = done.stderr.decode()
    assert done.returncode == code, error
    assert len(error.splitlines()) == 1, error
    assert error.startswith("simstream: ")
    assert said in error
    assert_no_secret(secured, error + done.stdout.decode())


def assert_no_secret(secured: SecuredBroker, output: str) -> None:
    for password in [*secured.users.values(), "wrong-guess-1"]:
        assert password not in output


def test_the_printed_commands_are_what_kafkas_own_tool_takes(
    secured: SecuredBroker, prefix: str, tmp_path: Path
) -> None:
    (tmp_path / "admin.properties").write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={secured.authority.certificate}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={secured.authority.sign(ADMIN).both}\n"
    )
    servers = secured.mutual_address.removeprefix("kafka://")
    chosen = [GRANTS["operator"][0], GRANTS["judge"][-1]]
    for one in chosen:
        tool, *arguments = one.command(LogOptions(prefix), "User:x", servers).split()
        assert tool == "kafka-acls"
        java = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{download()}/*", "org.apache.kafka.tools.AclCommand"]
        done = subprocess.run([*java, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    admin = AdminClient(secured.admin())
    there = admin.describe_acls(everything("x")).result()
    assert set(there) == set(bindings(chosen, LogOptions(prefix), "x"))


def test_the_table_of_permissions_in_the_document_is_the_list_itself() -> None:
    document = (Path(acls.__file__).parents[2] / "docs/operate/security.md").read_text(encoding="utf-8")
    assert acls.table() in document
