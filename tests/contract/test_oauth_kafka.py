"""Kafka that asks for OAuth tokens: every client of the service gets them from the user's function."""

from __future__ import annotations

import secrets
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.kafka.oauth import CLIENT, OAuthBroker
from simstream.client import Client
from tests.contract.helpers import toml, variables
from tests.e2e.harness import ROOT, Done, Program
from tests.kafka_fixtures import TopicPlace, need_broker

pytestmark = pytest.mark.kafka
FUNCTIONS = f"""
import os, sys, time
sys.path.append({str(ROOT)!r})
from deploy.kafka.oauth import unsigned_token

def good(config):
    with open(os.path.join(os.path.dirname(__file__), "calls"), "a") as file:
        file.write(config + "\\n")
    return (*unsigned_token("service", 6.0), "service", {{"traceId": "1"}})

def raises(config):
    raise ValueError("the token server\\nsays no to S3CRET")

def leaves(config):
    sys.exit(3)

def ended(config):
    return unsigned_token("service", -60)

def in_ms(config):
    token, ends = unsigned_token("service")
    return token, ends * 1000

def rubbish(config):
    return 17

def refused(config):
    return "no-jwt", time.time() + 60

number = 17
"""


@pytest.fixture(scope="module")
def oauth() -> Iterator[OAuthBroker]:
    need_broker()
    with OAuthBroker(quick=True) as running:
        yield running


@pytest.fixture
def program(oauth: OAuthBroker, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program over a fresh prefix, with the functions on its path."""
    (tmp_path / "functions.py").write_text(textwrap.dedent(FUNCTIONS))
    monkeypatch.syspath_prepend(str(tmp_path))
    return Program(tmp_path, cache, TopicPlace(oauth.address, f"o{secrets.token_hex(4)}"))


def with_function(program: Program, name: str) -> Path:
    client = {**CLIENT, "sasl.oauthbearer.config": "S3CRET", "oauth_cb": f"functions:{name}"}
    return toml(program.folder, name, client)


def run(program: Program, *arguments: object) -> Done:
    return program.on_log(*arguments, PYTHONPATH=f"{program.folder}:{ROOT / 'stream'}")


def test_the_whole_service_works_by_tokens_that_end_while_it_runs(program: Program) -> None:
    config = with_function(program, "good")
    path = {"PYTHONPATH": f"{program.folder}:{ROOT / 'stream'}"}
    assert run(program, "topics", "create", "--config", config).returncode == 0
    begun = time.monotonic()
    with program.serve("--config", config, **path) as service, program.news("--config", config, **path) as news:
        service.ready()
        news.ready()
        with Client(program.place.address, program.place.prefix, config=str(config)) as client:
            for number in range(2):
                page = {"id": f"{number}", "text": "Too short."}
                assert client.submit(page).result(30).reason == "few_words"
                while time.monotonic() < begun + 8:  # the first tokens have ended
                    time.sleep(0.2)
            story = {"id": "story", "text": "The night train stops at the mill village again after forty years."}
            assert client.submit(story).result(30).verdict == "new"
        news.until(lambda: '"total":1' in news.get("/api/stories")[1], "it shows what came after the first tokens")
        assert news.end() == 0, news.output
        assert service.end() == 0, service.output
    client = variables({**CLIENT, "oauth_cb": "functions:good"})
    shown = program.on_log("verdicts", "--json", **client, **path)
    assert len(shown.stdout.splitlines()) == 3, shown.stderr.decode()
    calls = (program.folder / "calls").read_text().splitlines()
    assert "S3CRET" in calls
    assert len(calls) > 4


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        (
            "raises",
            1,
            "functions:raises raised ValueError: the token server says no to (hidden): correct the function",
        ),
        ("leaves", 1, "functions:leaves raised SystemExit: 3: correct"),
        ("ended", 1, "returned a token that ended 60 s ago: correct"),
        ("in_ms", 1, "returned an end that is no number of seconds since 1970: correct"),
        ("rubbish", 1, "returned int, not a token and its end in seconds since 1970: correct"),
        ("refused", 1, "does not accept this user"),
        ("number", 2, "kafka.oauth_cb functions:number is no function but int: give module:function"),
        ("missing", 2, "kafka.oauth_cb functions:missing cannot be imported (AttributeError"),
    ],
)
def test_a_function_without_a_token_ends_a_command_with_one_line(
    program: Program, name: str, code: int, says: str
) -> None:
    begun = time.monotonic()
    done = run(program, "topics", "create", "--config", with_function(program, name))
    assert done.returncode == code, done.stderr.decode()
    [line] = done.stderr.decode().splitlines()
    assert says in line
    assert "S3CRET" not in line
    assert time.monotonic() - begun < 60
