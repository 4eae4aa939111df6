"""Pages whose main text is known: three public benchmarks of extraction, and the Chinese pages of the corpora.

The benchmarks are no part of the project. Clone them, and name their folders by the options `--scrapinghub`,
`--trafilatura` and `--wcxb`:

- https://github.com/scrapinghub/article-extraction-benchmark: 181 pages of news and blogs, with their articles.
- https://github.com/adbar/trafilatura: 990 pages, with a few segments that are in the article, or beside it.
- https://github.com/Murrough-Foley/web-content-extraction-benchmark (WCXB): 2,008 pages of seven kinds, nearly all
  English, with their main text. The 27 pages without any are left out. Its own split says which pages are held.

The Chinese pages have no labels of their own. Their article is what `sites.content_node` finds: the node with most
marks of sentences outside links. It was looked through by hand, by its first and last lines.

    python -m tests.studies.article_pages --scrapinghub PATH --trafilatura PATH --wcxb PATH > pages.jsonl

writes all pages as rows {"name", "html"}, for other programs. Rows {"name", "text"} are what such a program found.
With trafilatura, outside the project, `python outside.py < pages.jsonl > trafilatura.jsonl` makes them:

    import json, sys
    from trafilatura import extract
    for line in sys.stdin:
        page = json.loads(line)
        text = extract(page["html"], include_comments=False, include_tables=True) or ""
        print(json.dumps({"name": page["name"], "text": text}))
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from resiliparse.parse.html import HTMLTree

from simstream.text.decode import decode
from tests import corpora
from tests.studies import sites

_HOLDERS: Final = {"ednchina__1": ".article_text", "stcn__1": "#ctrlfscont", "hexun__1": ".art_contextBox"}
"""Chinese pages where `sites.content_node` takes more than the article, and what holds the article there."""
_BESIDE: Final = {"njxfhn__1": "blockquote", "163__8": ".related_article"}
"""Chinese pages with other articles' teasers inside the article, and what holds the teasers."""
_TEST: Final = "test/"
"""Names of the pages that WCXB holds begin so."""
_LEFT_OUT: Final = {"toutiao__2": "a gallery of pictures", "thepaper__4": "the same article as thepaper__2"}


class ArticlePage(NamedTuple):
    """A page, and what is known of its article: the whole `body`, or segments that are `wanted` or `unwanted`."""

    name: str
    html: str
    body: str | None
    wanted: list[str]
    unwanted: list[str]
    kind: str = ""
    """What kind of page WCXB says it is; empty in other sets."""

    @property
    def is_held(self) -> bool:
        """Whether the page is of the part that nothing is learnt from."""
        if self.kind:
            return self.name.startswith(_TEST)
        return hashlib.sha256(self.name.encode()).digest()[0] >= 128


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name the benchmarks' folders."""
    folder = click.Path(path_type=Path)
    for name in ("wcxb", "trafilatura", "scrapinghub"):
        help_text = f"Folder of a checkout of the benchmark of {name}."
        command = click.option(f"--{name}", type=folder, required=True, help=help_text)(command)
    return command


def read_pages(scrapinghub: Path, trafilatura: Path, wcxb: Path) -> dict[str, list[ArticlePage]]:
    """Return the pages of each set. Raises UsageError if a folder does not hold its set."""
    root = corpora.folder() or Path()
    return {
        "scrapinghub": list(_scrapinghub(_present("--scrapinghub", scrapinghub, "ground-truth.json"))),
        "chinese": list(_chinese(_present("SIMSTREAM_CORPORA", root, "html_pages/zh_html_gne/html"))),
        "trafilatura": list(_trafilatura(_present("--trafilatura", trafilatura, "tests/evaldata.json"))),
        "wcxb": list(_wcxb(_present("--wcxb", wcxb, "test/ground-truth").parent.parent)),
    }


def read_texts(path: Path) -> dict[str, str]:
    """Return what another program found, by the names of the pages."""
    with path.open(encoding="utf-8") as lines:
        return {row["name"]: row["text"] for row in map(json.loads, lines)}


def _present(option: str, folder: Path, part: str) -> Path:
    if not (folder / part).exists():
        where = "pages of public benchmarks are no part of the project: see tests/studies/article_pages.py"
        raise click.UsageError(f"{option}: {folder / part} does not exist; {where}")
    return folder / part


def _scrapinghub(truth: Path) -> Iterator[ArticlePage]:
    for name, row in json.loads(truth.read_text(encoding="utf-8")).items():
        raw = gzip.decompress((truth.parent / "html" / f"{name}.html.gz").read_bytes())
        yield ArticlePage(name, decode(raw, None, is_html=True)[0], row["articleBody"], [], [])


def _trafilatura(truth: Path) -> Iterator[ArticlePage]:
    for row in json.loads(truth.read_text(encoding="utf-8")).values():
        [path] = [path for part in ("cache", "eval") if (path := truth.parent / part / row["file"]).is_file()][:1]
        html, _ = decode(path.read_bytes(), None, is_html=True)
        yield ArticlePage(path.name.removesuffix(".html"), html, None, row["with"], row["without"])


def _wcxb(folder: Path) -> Iterator[ArticlePage]:
    for path in sorted(folder.glob("*/ground-truth/*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        if body := row["ground_truth"].get("main_content"):
            raw = gzip.decompress((path.parent.parent / f"html/{path.stem}.html.gz").read_bytes())
            name = f"{path.parent.parent.name}/{path.stem}"
            kind = row["_internal"]["page_type"]["primary"]
            yield ArticlePage(name, decode(raw, None, is_html=True)[0], body, [], [], kind)


def _chinese(folder: Path) -> Iterator[ArticlePage]:
    for path in sorted(folder.glob("*.html")):
        if path.stem not in _LEFT_OUT:
            html = sites.read(path)
            yield ArticlePage(path.stem, html, _chinese_body(path.stem, html), [], [])


def _chinese_body(name: str, html: str) -> str:
    tree: Any = HTMLTree.parse(html)
    node = tree.body.query_selector(_HOLDERS[name]) if name in _HOLDERS else sites.content_node(tree)
    for part in node.query_selector_all(_BESIDE[name]) if name in _BESIDE else ():
        part.decompose()
    return "\n".join(sites.lines_of(node))


@click.command()
@options
def main(**folders: Path) -> None:
    """Write all pages as rows {"name", "html"}."""
    for pages in read_pages(**folders).values():
        for page in pages:
            click.echo(json.dumps({"name": page.name, "html": page.html}))


if __name__ == "__main__":
    main()
