"""OAuth tokens from a user's function: how often it is called, and what happens while it fails."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from simstream.errors import NotAdmitted, SettingsError
from simstream.kafka_settings import from_variables
from simstream.log.kafka import tokens
from simstream.log.kafka.tokens import TokenSource, load_function, read_token, token_settings
from tests.e2e.harness import ROOT
from tests.waiting import until

OAUTH = {"sasl.mechanisms": "OAUTHBEARER"}


class StubServer:
    """A function that gives numbered tokens of some seconds, or does what the test says."""

    def __init__(self, seconds: float = 3600.0) -> None:
        self.seconds = seconds
        self.calls = 0
        self.fails = False
        self.hangs = threading.Event()
        self.hangs.set()

    def __call__(self, config: str) -> tuple[str, float]:
        self.calls += 1
        self.hangs.wait()
        if self.fails:
            raise ConnectionError("no route")
        return f"token-{self.calls}", time.time() + self.seconds


def calls_at_work() -> int:
    """How many threads call a function."""
    return sum(thread.name == "oauth" for thread in threading.enumerate())


def source_of(server: StubServer) -> TokenSource:
    return TokenSource("own:function", server, OAUTH)


def test_all_clients_share_a_token_until_most_of_its_life_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    server = StubServer(400.0)
    source = source_of(server)
    assert [source.token().value for _ in range(5)] == ["token-1"] * 5
    now += 299.0
    assert source.token().value == "token-1"
    now += 51.0
    assert source.token().value == "token-2"


def test_a_token_is_renewed_although_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, monotonic = 10_000.0, 1_000.0
    monkeypatch.setattr(time, "time", lambda: wall)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic)
    source = source_of(StubServer(400.0))
    assert source.token().value == "token-1"
    wall -= 3600.0
    monotonic += 299.0
    assert source.token().value == "token-1"
    monotonic += 2.0
    assert source.token().value == "token-2"


def test_a_present_token_stays_in_use_while_the_function_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tokens, "RENEW_SHARE", 0.0)
    server = StubServer()
    source = source_of(server)
    first = source.token()
    server.fails = True
    with caplog.at_level(logging.WARNING):
        assert [source.token(), source.token()] == [first, first]
    assert server.calls == 2  # the second caller does not call again at once
    assert caplog.messages == [
        "kafka.oauth_cb own:function raised ConnectionError: no route; the present token stays in use"
    ]


def test_an_error_of_the_function_shows_no_secret() -> None:
    def refused(_: str) -> None:
        raise ConnectionError("the secret hunter2-hunter2 is refused")

    source = TokenSource("own:function", refused, OAUTH | {"sasl.oauthbearer.client.secret": "hunter2-hunter2"})
    with pytest.raises(NotAdmitted, match="is refused") as caught:
        source.token()
    assert "hunter2" not in str(caught.value)


def test_a_token_that_has_ended_too_is_left_to_the_brokers_and_another_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    server = StubServer(200.0)
    source = source_of(server)
    source.token()
    server.fails = True
    now += 250.0
    kept = source.token()
    assert kept.value == "token-1"
    assert kept.ends > now  # otherwise the client would not take it
    server.fails = False
    assert source.token().value == "token-1"
    monkeypatch.setattr(tokens, "RETRY_S", 0.0)
    assert source.token().value == "token-3"


def test_a_function_that_hangs_costs_one_thread_and_one_bounded_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_CALL_S", 1.0)
    monkeypatch.setattr(tokens, "RETRY_S", 0.0)
    server = StubServer()
    server.hangs.clear()
    source = source_of(server)
    until(lambda: calls_at_work() == 0, "the calls of other tests have ended")
    begun = time.monotonic()
    for _ in range(20):
        with pytest.raises(
            NotAdmitted, match=r"no OAuth token: kafka\.oauth_cb own:function has not returned after"
        ):
            source.token()
    assert time.monotonic() - begun < 15 * tokens.MAX_CALL_S
    assert (server.calls, calls_at_work()) == (1, 1)
    server.hangs.set()
    until(lambda: calls_at_work() == 0, "the call has ended")
    assert source.token().value == "token-1"


@pytest.mark.parametrize(
    ("found", "trouble"),
    [
        (None, "returned NoneType, not a token and its end"),
        ("token", "returned str, not"),
        (("token",), "returned tuple, not"),
        ((b"token", 9e9), "returned no token, but bytes"),
        (("", 9e9), "returned no token"),
        (("two words", 9e9), "returned no token"),
        (("token", -(10**400)), "no number of seconds"),
        (("token", 10**400), "no number of seconds"),
        (("token", float("-inf")), "no number of seconds"),
        (("x" * (64 << 10) + "x", 9e9), "returned no token"),
        (("token", "soon"), "no number of seconds"),
        (("token", True), "no number of seconds"),
        (("token", 1_800_000_000_000), "no number of seconds"),
        (("token", float("nan")), "no number of seconds"),
        (("token", float("inf")), "no number of seconds"),
        (("token", 5.0), "ended 95 s ago"),
        (("token", 9e9, 7), "principal that is no text"),
        (("token", 9e9, "me", []), "extensions that are no dict"),
        (("token", 9e9, "me", {"a": 1}), "extensions that are not all"),
    ],
)
def test_what_is_no_token_is_told_by_what_is_wrong(found: Any, trouble: str) -> None:
    token, said = read_token(found, 100.0)
    assert token is None
    assert trouble in said


@pytest.mark.parametrize("name", ["json", ":dumps", "json:", "no_such_module:f", "json:nothing", "json:__name__"])
def test_a_name_that_is_no_function_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"^kafka\.oauth_cb .*give module:function"):
        load_function(name)


def test_a_function_without_its_mechanism_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"sasl\.mechanisms is not set"):
        token_settings({"oauth_cb": "json:dumps"})
    with pytest.raises(SettingsError, match=r"sasl\.mechanisms is PLAIN"):
        token_settings({"oauth_cb": "json:dumps", "sasl.mechanism": "PLAIN"})
    assert token_settings({"sasl.mechanism": "PLAIN"}) == {}


def test_the_variable_has_the_clients_own_spelling() -> None:
    assert from_variables({"SIMSTREAM_KAFKA_OAUTH_CB": "a:b"})["oauth_cb"].value == "a:b"


def test_the_function_for_msk_in_the_documents_signs_a_token_and_has_right_types(tmp_path: Path) -> None:
    pytest.importorskip("aws_msk_iam_sasl_signer")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/operate/security.md").read_text(), re.DOTALL)
    [code] = [block for block in blocks if "MSKAuthTokenProvider" in block]
    (tmp_path / "msk_iam.py").write_text(code)
    variables = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example"}

    def run(*arguments: str) -> str:
        line, environ = [sys.executable, *arguments], {**os.environ, **variables}
        done = subprocess.run(line, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    ask = "import msk_iam, time; t, e = msk_iam.token(''); print(len(t) > 100, 0 < e - time.time() < 3600)"
    assert run("-c", ask) == "True True\n"
    run("-m", "mypy", "--strict", "--disable-error-code=import-untyped", "msk_iam.py")
