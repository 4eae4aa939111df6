"""The news page compiles nothing once it runs: its event loop would stand still meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import gc, json
from numba.core.dispatcher import Dispatcher
from simstream.feeds.comparison import side_by_side
from simstream.feeds.title_words import TitleWords
from simstream.feeds.titles import sheet_of
from simstream.feeds.warming import warm_news
from simstream.model import Record
from simstream.settings import resolve
from simstream.sources.demo import demo_records
from simstream.text.extraction.fast import extract_fast
from simstream.wire.page import PageLimits

def compiled():
    return sum(len(each.signatures) for each in gc.get_objects() if issubclass(type(each), Dispatcher))

words = TitleWords(resolve({}).settings.cache_folder)
before = compiled()
warm_news(words)
warmed = compiled()
html = "<meta property='og:title' content='A &amp; B'>" + "<p>Half of them came to see it. 台风在西岸登陆。" * 200
texts = [html.encode(), html.encode("gbk"), html[:60].encode(), html.encode("utf-16"), b"<a href=/>1</a>" * 50, b""]
texts += [html.encode() + b"\\xff", ("<meta charset=gbk>" + html).encode("gbk")]
records = [Record("pages", 0, 0, b"a", text, (("content-type", b"text/html"),)) for text in texts]
for record in [*records, *demo_records()]:
    sheet = sheet_of(record, PageLimits())
    title = "" if sheet is None else sheet.title
    words.of_title(title), words.of_question(title)
extracted = [extract_fast(text, "text/html").text or "" for text in texts]
side_by_side(extracted[0], extracted[1] + "one word")
print(json.dumps([before, warmed, compiled()]))
"""


def test_warming_compiles_all_that_titles_search_and_comparison_need() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    before, warmed, later = json.loads(done.stdout)
    assert before < warmed == later
