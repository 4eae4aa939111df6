"""`simstream config` tells, all at once, what `serve` would refuse."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from simstream.cli.main import invoke
from simstream.errors import SettingsError, SimstreamError
from simstream.kafka_settings import OWN
from simstream.log import open_log
from simstream.log.kafka import polled_member
from simstream.log.kafka import reader as kafka_reader
from simstream.log.kafka.cluster import KafkaCluster
from simstream.settings import misspelt_variables, resolve

KAFKA = 'log = "kafka://127.0.0.1:1"\n'


def has_ipv6() -> bool:
    """Whether this machine has addresses of IPv6, at least its own."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


BINDS_IPV6_ONLY = Path("/proc/sys/net/ipv6/bindv6only")
IS_DUAL_STACK = not (BINDS_IPV6_ONLY.is_file() and int(BINDS_IPV6_ONLY.read_text()))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, and no variable but the cache's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """The exit code of `config`, and the lines on stderr."""
    code = invoke(["config", *arguments])
    return code, capsys.readouterr().err.splitlines()


def test_settings_that_serve_takes_end_with_0(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(capsys) == (0, [])
    assert told(capsys, "--log", "a/folder") == (0, [])
    monkeypatch.setenv("SIMSTREAM_LINK", "canonical")
    monkeypatch.setenv("SIMSTREAM_SHARDS", "0")
    monkeypatch.setenv("SIMSTREAM_MATCHES", "matches-8")
    assert told(capsys, "--roles", "judge") == (0, [])


@pytest.mark.parametrize(
    ("settings", "recipe", "wrong"),
    [
        ('recipe = "r.toml"', "similarity = 1.5", ["similarity is '1.5' (r.toml)"]),
        ('recipe = "r.toml"\nsimilarity = 0.5', 'base = "google2007"', ["has no sketch"]),
        ('recipe = "r.toml"', 'user_dictionaries = ["no.txt"]', ["no.txt"]),
        ('recipe = "nonsense"', "", ["no recipe 'nonsense'"]),
        ("distance = 64", "", ["distance is 64"]),
        ('distance = "auto"', "", ["from 0 to 16; only `simstream dedup` and `explain -i` take auto, as the flag"]),
        ('log = "http://broker:9092"', "", ["'http://broker:9092' does not name a place for a log"]),
        ('log = "kafka:/broker:9092"', "", ["'kafka:/broker:9092' does not name a place for a log"]),
        ('log = "kafka:broker"', "", ["'kafka:broker' does not name a place for a log"]),
        ('log = "127.0.0.1:9092"', "", ["did you mean kafka://127.0.0.1:9092?"]),
        ('log = "kafka://"', "", ["names no broker"]),
        *[
            (f'log = "kafka://a:9092,b:{port}"', "", [f"kafka://a:9092,b:{port} has the port {port}"])
            for port in ("99999", "0", "-5", "9092x", "9092/")
        ],
        ('log = "kafka://::1:9092"', "", ["kafka://::1:9092 has more than one colon in ::1:9092"]),
        ('log = "kafka://a:9092,fe80::1"', "", ["more than one colon in fe80::1"]),
        (KAFKA + '[kafka]\n"security.protocol" = "SLL"', "", ['"SLL" for configuration property "security.pro']),
        (KAFKA + '[kafka]\n"no.such" = 1', "", ["no.such"]),
        (KAFKA + '[kafka]\n"sasl.password.file" = "nowhere"', "", ["sasl.password.file"]),
        (
            KAFKA + '[kafka]\n"group.id" = "g"\nbootstrap.servers = "b:9092"\n"linger.ms" = 5',
            "",
            ["kafka.bootstrap.servers (file simstream.toml) is a setting that only the service", "kafka.group.id"],
        ),
        ('stuck_after = "1ms"\ngive_up_after = "20ms"', "", ["give_up_after is '20ms'", "stuck_after is '1ms'"]),
        ('token_file = "nowhere"', "", ["token_file names nowhere"]),
        ('state = "r.toml"', "", ["state is r.toml"]),
        ('http_host = "256.0.0.1"', "", ["http_host is 256.0.0.1"]),
        ('http_host = ""', "", ["http_host is ''"]),
        ('allowed_hosts = "news.example:8443"', "", ["allowed_hosts names 'news.example:8443'"]),
        ('state = "."', "", ["holds other files"]),
        ("shards = 6", "", ["6 shards are not possible"]),
        ('shards = 4\nlink = "canonical"', "", ["link is canonical, and no shard knows"]),
        ('matches = "matches-8"\nlink = "canonical"', "", ["link is canonical, and no shard knows"]),
        (
            'distance = "few"\nwindow = "soon"\nno_such = 1\nlog = "http://x"\n[frame]\nmax_pages = 0',
            "",
            ["no setting 'no_such'", "distance is 'few'", "frame.max_pages is 0", "window is 'soon'", "http://x"],
        ),
        (
            'recipe = "nonsense"\nsimilarity = 1.5\nlog = "http://x"\n[kafka]\n"security.protocol" = "SLL"',
            "",
            ["no recipe 'nonsense'", "similarity is 1.5", "http://x", '"SLL" for configuration property'],
        ),
    ],
)
def test_each_setting_that_serve_would_refuse_is_a_line_and_ends_with_2(
    folder: Path, capsys: pytest.CaptureFixture[str], settings: str, recipe: str, wrong: list[str]
) -> None:
    (folder / "simstream.toml").write_text(settings)
    (folder / "r.toml").write_text(recipe)
    code, lines = told(capsys, "--roles", "judge,query")
    assert code == 2
    assert len(lines) == len(wrong), lines
    for line, words in zip(lines, wrong, strict=True):
        assert words in line
        assert line.count(": ") >= 2, "it does not say what to do"


def test_settings_that_the_client_refuses_are_tried_once(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token of OAuth may have to be fetched each time."""
    checked: list[KafkaCluster] = []
    check = KafkaCluster.check

    def counted(self: KafkaCluster) -> None:
        checked.append(self)
        check(self)

    monkeypatch.setattr(KafkaCluster, "check", counted)
    (folder / "simstream.toml").write_text(KAFKA + '[kafka]\n"security.protocol" = "SLL"')
    code, lines = told(capsys)
    assert (code, len(lines), len(checked)) == (2, 1, 1)


@pytest.mark.parametrize(
    ("setting", "role"),
    [
        ('query_host = "256.0.0.1"', "query"),
        ('token_file = "nowhere"', "query"),
        ('allowed_hosts = "news.example:8443"', "query"),
        ('state = "simstream.toml"', "judge"),
        ('link = "canonical"', "match"),
    ],
)
def test_a_setting_is_checked_only_for_the_role_that_uses_it(
    folder: Path, capsys: pytest.CaptureFixture[str], setting: str, role: str
) -> None:
    (folder / "simstream.toml").write_text(setting)
    others = {"fingerprint", "judge", "query"} - {role}
    assert told(capsys, "--roles", ",".join(others)) == (0, [])
    code, [line] = told(capsys, "--roles", role)
    assert (code, setting.split(" ")[0] in line) == (2, True)


def test_the_folder_of_a_matchers_state_is_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "simstream.toml").write_text('state = "simstream.toml"')
    assert told(capsys, "--roles", "fingerprint") == (0, [])
    code, [line] = told(capsys, "--roles", "match")
    assert (code, "state is simstream.toml" in line) == (2, True)


@pytest.mark.parametrize("role", ["judge", "match"])
def test_a_number_of_shards_that_is_not_possible_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    (folder / "simstream.toml").write_text("shards = 3")
    assert told(capsys, "--roles", "fingerprint") == (0, [])
    code, [line] = told(capsys, "--roles", role)
    assert (code, "3 shards are not possible" in line) == (2, True)


def test_a_mistyped_variable_ends_config_and_serve_with_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMSTREAM_WINDWO", "72h")
    line = "simstream: the variable SIMSTREAM_WINDWO belongs to no setting: use SIMSTREAM_WINDOW, if you mean that"
    assert told(capsys) == (2, [line])
    for command in ("serve", "news"):
        assert invoke([command]) == 2
        assert capsys.readouterr().err.splitlines() == [line]


@pytest.mark.parametrize(
    ("http_host", "query_host", "collide"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("localhost", "127.0.0.1", True),
        ("0.0.0.0", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("::1", "::1", True),
        ("::", "::1", True),
        ("::1", "127.0.0.1", False),
        ("0.0.0.0", "::1", False),
        ("::", "127.0.0.1", IS_DUAL_STACK),
        ("0.0.0.0", "::", IS_DUAL_STACK),
    ],
)
def test_one_port_is_refused_only_where_both_servers_would_listen_on_it(
    folder: Path, capsys: pytest.CaptureFixture[str], http_host: str, query_host: str, collide: bool
) -> None:
    if ":" in http_host + query_host and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    hosts = f'http_host = "{http_host}"\nquery_host = "{query_host}"\n'
    (folder / "simstream.toml").write_text(hosts + "http_port = 9470")
    assert told(capsys) == (0, []), "without the role query nothing else listens"
    code, lines = told(capsys, "--roles", "judge,query")
    assert (code, len(lines)) == ((2, 1) if collide else (0, 0))
    assert not lines or "http_port and query_port are both 9470" in lines[0]


def test_two_free_ports_are_no_conflict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "simstream.toml").write_text("http_port = 0\nquery_port = 0")
    assert told(capsys, "--roles", "query") == (0, [])


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ("http_port = 9470", "http_port and query_port are both 9470"),
        ('stuck_after = "1ms"', "stuck_after is '1ms'"),
        ('[kafka]\n"transactional.id" = "mine"', "kafka.transactional.id"),
    ],
)
def test_serve_refuses_before_it_starts_what_config_refuses(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, settings: str, wrong: str
) -> None:
    def start(*_: object) -> None:
        raise AssertionError("serve has started")

    monkeypatch.setattr("simstream.cli.serve.serve", start)
    (folder / "simstream.toml").write_text(settings)
    code, said = told(capsys, "--roles", "query")
    assert (code, len(said)) == (2, 1)
    assert invoke(["serve", "--roles", "query"]) == 2
    assert capsys.readouterr().err.splitlines() == said
    assert wrong in said[0]


def test_every_setting_of_the_client_that_the_service_fixes_is_refused() -> None:
    fixed = kafka_reader.FIXED.keys() | polled_member.FIXED.keys()
    assert fixed - OWN.keys() == {"queued.max.messages.kbytes"}, "only a member that reads nothing fixes it"
    wrong: list[SimstreamError] = []
    found = resolve({}, {f"SIMSTREAM_KAFKA_{name.upper().replace('.', '_')}": "1" for name in OWN}, wrong=wrong)
    assert found.settings.kafka == {}
    assert [one.what.split()[0] for one in wrong] == [f"kafka.{name}" for name in sorted(OWN)]


def test_the_state_must_be_writable_and_the_cache_need_not(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    assert told(capsys) == (0, []), "the image's tables are in a folder that nobody may write to"
    (folder / "simstream.toml").write_text('state = "kept/here"')
    code, [line] = told(capsys)
    assert code == 2
    assert "this user cannot write to" in line


def test_variables_that_kubernetes_sets_are_no_mistake() -> None:
    links = {
        "SIMSTREAM_QUERY_PORT": "tcp://10.0.0.1:9470",
        "SIMSTREAM_QUERY_PORT_9470_TCP_ADDR": "10.0.0.1",
        "SIMSTREAM_QUERY_SERVICE_HOST": "10.0.0.1",
        "SIMSTREAM_QUERY_SERVICE_PORT_HTTP": "9470",
    }
    assert misspelt_variables(links) == {}
    assert resolve({}, links).settings.query_port == 9470


@pytest.mark.parametrize("address", ["kafka:/127.0.0.1:9092", "KAFKA:x", "https:/x", "file:x"])
def test_an_address_of_another_kind_is_no_folder(address: str) -> None:
    with pytest.raises(SettingsError, match="kafka://HOST:PORT"):
        open_log(address)


@pytest.mark.parametrize("command", ["list", "replay"])
def test_an_unknown_reason_of_dead_letters_is_refused(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert invoke(["dead-letters", command, "--reason", "nonsense", "--log", "kafka://127.0.0.1:1"]) == 2
    assert "'nonsense' is not one of" in capsys.readouterr().err


def test_a_link_to_a_folder_that_is_gone_is_no_state(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "simstream.toml").write_text('state = "link"')
    (folder / "link").symlink_to(folder / "gone")
    code, [line] = told(capsys, "--roles", "judge")
    assert (code, "link is not a folder" in line) == (2, True)
