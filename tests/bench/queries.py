"""`python -m tests.bench.queries --pages 10000000`: how long the query role's API takes to answer, at a size.

The state is filled with made-up pages (`made_pages`), as frames bring them; what is asked are real texts over HTTP,
one at a time on a kept connection from another process, as a crawler or an editor's tool would. Before the clock
starts the answers of a sample of stored fingerprints are checked: each must find its own page.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection

import numpy as np

from simstream.client.aio import AsyncClient
from simstream.judge.policy import make_policy
from simstream.queries.app import make_app
from simstream.queries.server import QueryServer
from simstream.queries.verdict_caller import VerdictCaller
from simstream.roles.context import RoleContext
from simstream.roles.query import NAME, QueryRole
from simstream.settings import Settings
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe_file import load_recipe
from tests.bench.made_pages import PageMaker
from tests.bench.state import judge
from tests.e2e import pages as texts

SAMPLE = 20


def ask(connection: HTTPConnection, path: str, body: object) -> tuple[dict, float]:
    data = json.dumps(body).encode()
    began = time.perf_counter()
    connection.request("POST", path, data, {"Content-Type": "application/json"})
    answer = connection.getresponse().read()
    return json.loads(answer), time.perf_counter() - began


def asking(port: int, count: int) -> None:
    """In another process: prints percentiles."""
    rng = random.Random(1)
    connection = HTTPConnection("127.0.0.1", port)
    for words in (60, 600):
        times = []
        for number in range(count + 50):
            answer, took = ask(connection, "/match", {"texts": [texts.text(rng, words)]})
            assert answer["results"][0]["reason"] is None
            if number >= 50:
                times.append(took)
        p50, p99 = np.percentile(times, [50, 99]) * 1000
        print(
            f"  {words:>4} words: median {p50:6.2f} ms, 99 of 100 {p99:6.2f} ms, most {max(times) * 1000:6.2f} ms"
        )


def _turn(context: RoleContext) -> None:
    """What the role's loop would say where there is nothing to follow."""
    while True:
        context.health.turn(NAME)
        time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=1_000)
    parser.add_argument("--asking", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.asking:
        asking(options.asking, options.questions)
        return
    settings = Settings()
    context = RoleContext(settings)
    recipe = load_recipe("default")
    with Fingerprinter(recipe, settings.cache_folder, workers=0) as fingerprinter:
        policy = make_policy(recipe, fingerprinter.recipe_id)
        role = QueryRole(None, policy, fingerprinter, context)  # type: ignore[arg-type]  # nothing is followed
        state = role._log_judge.state
        context.health.turn(NAME)  # it has to be known before it beats
        threading.Thread(target=_turn, args=(context,), daemon=True).start()
        made = PageMaker(0.1, 0.1)
        kept = []
        while made.count < options.pages:
            columns = made.batch(min(8192, options.pages - made.count))
            if len(kept) < SAMPLE:
                kept.append((columns.id_list()[0], int(columns.fingerprint[0]), columns.sketch[0].tolist()))
            judge(state, columns)
        state.index.wait()
        app = make_app(role, fingerprinter, VerdictCaller(AsyncClient), context.health, context.metrics)
        with QueryServer("127.0.0.1", 0, app) as server:
            connection = HTTPConnection("127.0.0.1", server.port)
            for page_id, fingerprint, sketch in kept:
                one = {"fingerprint": f"{fingerprint:016x}", "sketch": [f"{word:016x}" for word in sketch]}
                answer, _ = ask(connection, "/match/fingerprints", {"fingerprints": [one], "limit": 1000})
                assert page_id in {match["id"] for match in answer["results"][0]["matches"]}
            print(f"{state.resolver.live_pages:,} live pages, one question at a time:", flush=True)
            more = ["--asking", str(server.port), "--questions", str(options.questions)]
            subprocess.run([sys.executable, "-m", "tests.bench.queries", *more], check=True)


if __name__ == "__main__":
    main()
