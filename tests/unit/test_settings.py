"""Settings: who wins, where a value came from, and what is said about a wrong one."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from simstream.errors import InputMissing, SettingsError, SimstreamError
from simstream.kafka_settings import SettingValue, show_value, without_secrets
from simstream.settings import (
    CRAWL_SETTINGS,
    Settings,
    default_cache,
    duration_ms,
    misspelt_variables,
    names,
    resolve,
    unknown_variables,
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "simstream.toml"


def test_flags_win_over_variables_over_the_file_over_defaults(file: Path) -> None:
    file.write_text('prefix = "file"\nrecipe = "file"\nlink = "canonical"\n[frame]\nmax_pages = 5')
    environ = {"SIMSTREAM_PREFIX": "variable", "SIMSTREAM_RECIPE": "variable", "SIMSTREAM_FRAME_LINGER_MS": "3"}
    settings, origin = resolve({"prefix": "flag", "recipe": None}, environ)
    assert (settings.prefix, origin["prefix"]) == ("flag", "flag --prefix")
    assert (settings.recipe, origin["recipe"]) == ("variable", "variable SIMSTREAM_RECIPE")
    assert (settings.link, origin["link"]) == ("canonical", "file simstream.toml")
    assert (settings.frame.max_pages, origin["frame.max_pages"]) == (5, "file simstream.toml")
    assert (settings.frame.linger_ms, origin["frame.linger_ms"]) == (3, "variable SIMSTREAM_FRAME_LINGER_MS")
    assert (settings.window, origin["window"]) == (None, "default")


@pytest.mark.usefixtures("file")
def test_without_anything_all_are_defaults() -> None:
    settings, origin = resolve({}, {})
    assert settings == Settings()
    assert set(origin.values()) == {"default"}
    assert set(origin) == set(names())


def test_the_kafka_table_is_passed_through(file: Path) -> None:
    file.write_text('[kafka]\n"security.protocol" = "SSL"\n"socket.timeout.ms" = 5')
    assert resolve({}, {}).settings.kafka == {"security.protocol": "SSL", "socket.timeout.ms": 5}


def test_an_empty_variable_says_nothing() -> None:
    found = resolve({}, {"SIMSTREAM_HTTP_HOST": "", "SIMSTREAM_QUERY_HOST": "", "SIMSTREAM_DISTANCE": ""})
    assert (found.settings.http_host, found.settings.query_host) == ("127.0.0.1", "127.0.0.1")
    assert found.origin["http_host"] == "default"


def test_the_file_can_be_named_by_a_variable(tmp_path: Path) -> None:
    named = tmp_path / "other.toml"
    named.write_text("distance = 2")
    assert resolve({}, {"SIMSTREAM_CONFIG": str(named)}).settings.distance == 2


def test_a_named_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputMissing, match="nowhere"):
        resolve({}, {}, str(tmp_path / "nowhere.toml"))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SIMSTREAM_DISTANCE", "x"),
        ("SIMSTREAM_DISTANCE", "-1"),
        ("SIMSTREAM_THREADS", "0"),
        ("SIMSTREAM_LINK", "all"),
        ("SIMSTREAM_PREFIX", "a b"),
        ("SIMSTREAM_HTTP_PORT", "65536"),
        ("SIMSTREAM_FRAME_MAX_PAGES", "0"),
        ("SIMSTREAM_EXTRACT_TIMEOUT_S", "0"),
        ("SIMSTREAM_EXTRACT_TIMEOUT_S", "1e-7"),
        ("SIMSTREAM_EXTRACT_TIMEOUT_S", "1e30"),
        ("SIMSTREAM_EXTRACT_TIMEOUT_S", "inf"),
        ("SIMSTREAM_EXTRACT_TIMEOUT_S", "nan"),
        ("SIMSTREAM_EXTRACT_MEMORY_BYTES", "16777216"),
        ("SIMSTREAM_EXTRACT_MEMORY_BYTES", "100000000000000000000"),
        ("SIMSTREAM_EXTRACT_MEMORY_BYTES", "9223372036854775807"),
        ("SIMSTREAM_DEAD_LETTERS_STOP_RATIO", "2"),
        ("SIMSTREAM_MAX_RECORD_BYTES", "1.5"),
        ("SIMSTREAM_CLUSTER_ALERT_PAGES", "0"),
        ("SIMSTREAM_CLUSTER_ALERT_SHARE", "1.5"),
    ],
)
@pytest.mark.usefixtures("file")
def test_a_wrong_value_is_named_with_its_origin(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=rf"{value}.*{variable}"):
        resolve({}, {variable: value})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            'text = "body..content"',
            r"fields.text is 'body..content' \(file simstream.toml\): write names with one dot",
        ),
        ('text = ["a"]', r"fields.text is \['a'\] \(file simstream.toml\): give text"),
        ('url = "header:u"', "only fields.id can be a header"),
        ('body = "b"', "has no setting 'fields.body': see `simstream config` for all settings"),
        ('titel = "b"', "has no setting 'fields.titel': use fields.title, if you mean that"),
        ('text = "b"\nhtml = "b"', "fields.text and fields.html are both 'b'"),
    ],
)
def test_a_malformed_path_of_a_field_is_named_with_advice(file: Path, content: str, said: str) -> None:
    file.write_text(f"[fields]\n{content}")
    with pytest.raises(SettingsError, match=said):
        resolve({}, {})
    wrong: list[SimstreamError] = []
    assert resolve({}, {}, wrong=wrong).settings.field_paths is None or "html" in content
    assert len(wrong) == 1


def test_paths_of_fields_come_from_the_file_and_from_variables(file: Path) -> None:
    file.write_text('pages_topic = "crawl.v2"\nfields.text = "body.content"\nfields.id = "header:doc"')
    settings, origin = resolve({}, {"SIMSTREAM_FIELDS_TEXT": "body.text"})
    paths = settings.field_paths
    assert paths is not None
    assert (settings.pages_topic, paths.paths) == ("crawl.v2", {"text": "body.text", "id": "header:doc"})
    assert origin["fields.text"] == "variable SIMSTREAM_FIELDS_TEXT"
    assert Settings().field_paths is None


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("distance", "x", "give a whole number from 0 to 16"),
        ("threads", 0, "give a whole number, 1 or more"),
        ("http_port", "65536", "give a whole number from 0 to 65535"),
        ("extract.timeout_s", "fast", "give a number from 0.1 to 3600"),
        ("dead_letters.stop_ratio", 2, "give a number from 0 to 1"),
        ("link", "all", "use any or canonical"),
        ("prefix", "a b", "use letters, digits, '.', '_' and '-', at most 180"),
        ("pages_topic", "x" * 250, "use letters, digits, '.', '_' and '-', at most 249"),
        ("verdicts_topic", "x" * 171, "use letters, digits, '.', '_' and '-', at most 170"),
        ("matches", "x" * 61, "use letters, digits, '.', '_' and '-', at most 60"),
        ("log_level", "loud", "use debug or error or info or warning"),
        ("recipe", 5, "give text"),
        ("window", "5", "give a positive duration such as 72h, 30m, 10s or 500ms"),
        ("stop_timeout", "9223372037s", "give at most 36500d, a hundred years"),
        ("state", "a\0b", "leave the NUL out"),
    ],
)
@pytest.mark.usefixtures("file")
def test_a_wrong_value_comes_with_advice_in_plain_words(name: str, value: object, advice: str) -> None:
    flag = name.replace("_", "-").replace(".", "-")
    with pytest.raises(SettingsError) as caught:
        resolve({name: value}, {})
    assert str(caught.value) == f"{name} is {value!r} (flag --{flag}): {advice}"


def test_a_kafka_entry_that_is_no_table_is_named(file: Path) -> None:
    file.write_text("kafka = 5")
    with pytest.raises(SettingsError, match=r"kafka is not a table \(file simstream\.toml\): write"):
        resolve({}, {})


def test_variables_that_no_setting_has_are_found() -> None:
    environ = dict.fromkeys(
        ["SIMSTREAM_DISTNCE", "SIMSTREAM_CONFIG", "SIMSTREAM_CORPORA", "SIMSTREAM_CACHE", "X"], ""
    )
    assert unknown_variables(environ) == ["SIMSTREAM_DISTNCE"]


@pytest.mark.parametrize("name", ["window", "give_up_after", "stop_timeout", "gap_patience"])
@pytest.mark.parametrize("value", ["", "5", "-1h", "0s", "1w", "h", "1e3s", " 1s", "99999999999999d"])
@pytest.mark.usefixtures("file")
def test_a_wrong_duration_is_refused(name: str, value: str) -> None:
    if name == "window" and value == "":
        assert resolve({"window": ""}, {}).settings.window_ms is None
        return
    with pytest.raises(SettingsError, match=name):
        resolve({name: value}, {})


@pytest.mark.parametrize(
    ("text", "ms"),
    [("72h", 259_200_000), ("30m", 1_800_000), ("1.5d", 129_600_000), ("500ms", 500), ("10s", 10_000)],
)
def test_durations_are_read_in_every_unit(text: str, ms: int) -> None:
    assert duration_ms("window", text) == ms


def test_a_similarity_keeps_the_digits_it_was_written_with(file: Path) -> None:
    file.write_text("similarity = 0.7")
    assert resolve({}, {}).settings.similarity == "0.7"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("no_such = 1", "no_such"),
        ("[frame]\nno_such = 1", r"frame\.no_such"),
        ("[no_such]\nx = 1", r"no_such\.x"),
        ("[[frame]]\nx = 1", "frame"),
    ],
)
def test_an_unknown_setting_is_refused(file: Path, content: str, name: str) -> None:
    file.write_text(content)
    with pytest.raises(SettingsError, match=rf"simstream\.toml has no setting '{name}'"):
        resolve({}, {})


@pytest.mark.parametrize("content", [b"a = ", b"\xff\xfe", b"a = 1\na = 2", b"a = " + b"[" * 3_000 + b"]" * 3_000])
def test_a_file_that_is_no_toml_is_named(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=r"simstream\.toml cannot be read as TOML"):
        resolve({}, {})


SECRET = "correct-horse-7"


def test_a_secret_is_read_from_the_file_that_a_setting_or_a_variable_names(file: Path) -> None:
    (file.parent / "secret").write_text(f"{SECRET}\n")
    for text in (
        '[kafka]\n"sasl.password.file" = "secret"',
        '[kafka]\n"sasl.password" = {file = "secret"}',
        '[kafka]\nsasl.password.file = "secret"\n',
    ):
        file.write_text(text)
        settings, origin = resolve({}, {})
        assert settings.kafka == {"sasl.password": SECRET}
        assert origin["kafka.sasl.password"] == "file simstream.toml, from secret"
    file.unlink()
    named = {"SIMSTREAM_KAFKA_SASL_PASSWORD_FILE": str(file.parent / "secret")}
    assert resolve({}, named).settings.kafka == {"sasl.password": SECRET}
    assert unknown_variables(named) == []


@pytest.mark.usefixtures("file")
def test_variables_that_kubernetes_makes_of_a_service_of_that_name_are_no_settings() -> None:
    links = {
        "SIMSTREAM_KAFKA_SERVICE_HOST": "10.0.0.1",
        "SIMSTREAM_KAFKA_PORT": "tcp://10.0.0.1:9092",
        "SIMSTREAM_KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "SIMSTREAM_KAFKA_BOOTSTRAP_SERVICE_HOST": "10.0.0.1",
        "SIMSTREAM_KAFKA_BOOTSTRAP_SERVICE_PORT_TCP_CLIENTS": "9092",
        "SIMSTREAM_KAFKA_BOOTSTRAP_PORT_9092_TCP_PROTO": "tcp",
    }
    assert resolve({}, links).settings.kafka == {}
    assert unknown_variables(links) == sorted(links)


def test_variables_win_over_the_table_one_setting_of_the_client_at_a_time(file: Path) -> None:
    file.write_text('[kafka]\nsecurity.protocol = "SSL"\n"sasl.username" = "a"')
    settings, origin = resolve({}, {"SIMSTREAM_KAFKA_SASL_USERNAME": "b", "SIMSTREAM_KAFKA_LOG_LEVEL": "3"})
    assert settings.kafka == {"security.protocol": "SSL", "sasl.username": "b", "log_level": "3"}
    assert origin["kafka.sasl.username"] == "variable SIMSTREAM_KAFKA_SASL_USERNAME"


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (None, "No such file"),
        ("", "is empty"),
        ("\n", "is empty"),
        ("x" * 70_000, "has more than"),
        (b"\xff", "not UTF-8 text"),
    ],
)
def test_a_file_that_holds_no_secret_is_named_and_not_shown(
    file: Path, content: str | bytes | None, wrong: str
) -> None:
    if content is not None:
        (file.parent / "secret").write_bytes(content if isinstance(content, bytes) else content.encode())
    file.write_text('[kafka]\n"sasl.password.file" = "secret"')
    with pytest.raises(SettingsError, match=wrong) as caught:
        resolve({}, {})
    assert "xxx" not in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        f'"sasl.password" = ["{SECRET}"]',
        f'"sasl.password" = "{SECRET}"\n"sasl.password.file" = "secret"',
        f'"sasl.password" = 2020-01-01\n"ssl.key.pem" = "{SECRET}"',
    ],
)
def test_an_error_about_the_kafka_table_hides_its_values(file: Path, table: str) -> None:
    (file.parent / "secret").write_text(SECRET)
    file.write_text(f"[kafka]\n{table}")
    with pytest.raises(SettingsError) as caught:
        resolve({}, {})
    assert "kafka.sasl.password" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_what_is_printed_of_settings_has_no_secret() -> None:
    settings = Settings(kafka={"sasl.password": SECRET, "ssl.key.pem": SECRET})
    assert SECRET not in repr(settings)
    assert SECRET not in without_secrets(f"no such value {SECRET}", settings.kafka)
    for name in ("sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret"):
        assert show_value(name, SettingValue(SECRET, "")) == "(hidden)"
    assert show_value("sasl.username", SettingValue("a", "file f, from g")) == "(hidden)"
    assert show_value("ssl.key.location", SettingValue("/a", "")) == "/a"


def test_bootstrap_servers_are_another_name_of_the_log_at_each_origin(file: Path) -> None:
    file.write_text('bootstrap_servers = ["a:1", "b:2"]')
    variable = {"SIMSTREAM_BOOTSTRAP_SERVERS": "c:3, [::1]:4"}
    for flags, environ, log, origin in [
        ({}, {}, "kafka://a:1,b:2", "file simstream.toml"),
        ({}, variable, "kafka://c:3,[::1]:4", "variable SIMSTREAM_BOOTSTRAP_SERVERS"),
        ({"bootstrap_servers": "d:5", "log": None}, variable, "kafka://d:5", "flag --bootstrap-servers"),
        ({"bootstrap_servers": "d:5", "log": "kafka://d:5"}, {}, "kafka://d:5", "flag --bootstrap-servers"),
        ({"log": "folder"}, variable, "folder", "flag --log"),
    ]:
        settings, origins = resolve(flags, environ)
        assert (settings.log, origins["log"]) == (log, origin)
    assert misspelt_variables(variable) == {}


def test_a_flag_for_the_place_of_verdicts_counts_more_than_another_one_in_the_file(file: Path) -> None:
    file.write_text('verdicts_topic = "court"')
    settings, origin = resolve({"publish_to": "strict"}, {})
    assert (settings.publish_to, settings.verdicts_topic) == ("strict", None)
    assert (origin["publish_to"], origin["verdicts_topic"]) == ("flag --publish-to", "default")
    file.write_text('publish_to = "strict"')
    settings, origin = resolve({"publish_to": None}, {"SIMSTREAM_VERDICTS_TOPIC": "court"})
    assert (settings.publish_to, settings.verdicts_topic) == (None, "court")
    assert resolve({"verdicts_topic": "x" * 170}, {}).settings.verdicts_topic == "x" * 170
    assert origin["publish_to"] == "default"


@pytest.mark.parametrize("servers", ["a", "kafka://a:1", "a:1;b:2", "a:1,", "a:123456", "http://a:1/", "a:b:c"])
def test_bootstrap_servers_that_are_none_are_refused(servers: str) -> None:
    with pytest.raises(
        SettingsError, match=r"^bootstrap_servers is .* \(flag --bootstrap-servers\): give HOST:PORT"
    ):
        resolve({"bootstrap_servers": servers}, {})


def test_a_log_and_other_bootstrap_servers_of_one_origin_are_refused(file: Path) -> None:
    with pytest.raises(SettingsError, match=r"log is 'folder', and bootstrap_servers is 'a:1' \(flag .*give one"):
        resolve({"bootstrap_servers": "a:1", "log": "folder"}, {})
    file.write_text('log = "kafka://a:1"\nbootstrap_servers = "b:1"')
    wrong: list[SimstreamError] = []
    assert resolve({}, {}, wrong=wrong).settings.log == "kafka://a:1"
    assert len(wrong) == 1


def test_a_setting_in_other_letters_and_a_file_of_a_windows_editor(file: Path) -> None:
    file.write_bytes(b'\xef\xbb\xbfprefix = "news"\n')
    assert resolve({}, {}).settings.prefix == "news"
    file.write_text('Distance = 3\nPrefix = "news"\n')
    wrong: list[SimstreamError] = []
    resolve({}, {}, wrong=wrong)
    assert [error.todo for error in wrong] == [f"use {name}, if you mean that" for name in ("distance", "prefix")]


def test_a_setting_of_a_crawler_that_is_a_variable_belongs_into_scrapys_settings() -> None:
    pytest.importorskip("scrapy")
    from simstream.crawlers.options import CrawlOptions

    own = {f"SIMSTREAM_{field.name.upper()}" for field in dataclasses.fields(CrawlOptions)}
    assert own.issuperset(CRAWL_SETTINGS)
    wrong = misspelt_variables(dict.fromkeys(own - {"SIMSTREAM_CONFIG"}, "1"))
    assert {name: error.todo for name, error in wrong.items()} == dict.fromkeys(
        CRAWL_SETTINGS, "unset it, and write it into Scrapy's settings.py"
    )


def test_tables_lie_in_the_users_cache_and_never_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    assert default_cache() == tmp_path / "own" / "simstream"
    for unfit in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unfit)
        assert default_cache() == tmp_path / "home" / ".cache" / "simstream"
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)  # a user that no list has, as in a container
    assert default_cache() == Path("/.cache/simstream")
