"""What the other commands print."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jieba
import pytest

from simstream import fingerprint
from simstream.cli.main import COMMANDS
from simstream.cli.output import written
from simstream.errors import UsageError
from simstream.files.zstandard import zstd
from simstream.log.base import OutgoingVerdict
from simstream.sources.demo import demo_records
from simstream.wire.page import PageLimits, decode
from tests.e2e import pages
from tests.e2e.harness import PATIENCE_S, ROOT, Program, bare, command_line, environment
from tests.e2e.pages import HARBOUR
from tests.waiting import until


def test_the_demo_judges_its_108_pages_each_once_and_shows_every_kind_but_withdrawn(alone: Program) -> None:
    done = alone.run("demo")
    assert done.returncode == 0, done.stderr.decode()
    rows = [line.split() for line in done.stdout.decode().splitlines() if line[:8].strip().isdigit()]
    assert [int(row[0]) for row in rows] == list(range(108))
    assert {row[1] for row in rows} == {"new", "near_duplicate", "unchanged", "too_short", "unreadable"}
    assert "108 pages, 108 verdicts, each published once" in done.stdout.decode()
    readme = (ROOT / "README.md").read_text("utf-8").splitlines()
    shown = [line.split() for line in readme if re.match(r" {7}\d  [a-z_]+ ", line)]
    assert shown == rows[:3]


def test_the_demo_takes_pages_of_yours(alone: Program, tmp_path: Path) -> None:
    mine = pages.write(tmp_path / "mine.jsonl", 48)
    with mine.open("a") as file:
        file.writelines(json.dumps({"id": "twice", "text": f"{HARBOUR} {number}"}) + "\n" for number in range(2))
    done = alone.run("demo", "--quiet", mine)
    assert done.returncode == 0, done.stderr.decode()
    assert "50 pages, 50 verdicts" in done.stdout.decode()
    assert " pages have the id of an earlier page" in done.stderr.decode()


def test_the_demo_counts_only_pages_that_are_in_a_cluster_at_the_end(alone: Program) -> None:
    versions = [{"id": key, "text": HARBOUR} for key in "abcde"]
    versions += [{"id": "a", "status": 404}, {"id": "b", "status": 500}, {"id": "c", "text": "few words"}]
    (alone.folder / "mine.jsonl").write_text("\n".join(map(json.dumps, versions)))
    done = alone.run("demo", "--quiet", "mine.jsonl")
    assert done.returncode == 0, done.stderr.decode()
    _, _, largest = done.stdout.decode().partition("Largest clusters\n")
    assert largest.splitlines()[0].split() == ["3", "pages", "cluster", "0", "b"]


def test_the_demo_over_a_damaged_file_shows_what_could_be_read(alone: Program) -> None:
    packed = gzip.compress(b"".join(b'{"id":"%d","text":"%s"}\n' % (n, HARBOUR.encode()) for n in range(5_000)), 0)
    (alone.folder / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    done = alone.run("demo", "--quiet", "cut.jsonl.gz")
    assert done.returncode == 1
    assert "each published once" in done.stdout.decode()
    assert "cut.jsonl.gz" in done.stderr.decode().splitlines()[-1]


def test_the_demo_over_a_bad_file_names_it_and_leaves_nothing(alone: Program, tmp_path: Path) -> None:
    (alone.folder / "wrong.csv").write_text("name,content\na,b\n")
    for _ in range(3):  # the roles may still begin when the input is found to be bad
        done = alone.run("demo", "wrong.csv", TMPDIR=str(tmp_path))
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.decode().startswith("simstream: wrong.csv has no column text or html")
        assert not list(tmp_path.glob("simstream-demo-*"))


def test_verdicts_prints_the_records_as_they_are_or_as_a_table(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    program.feed(60)
    verdicts = program.judge(60)
    printed = program.good("verdicts", "--json").splitlines()
    assert [line.encode() for line in printed] == verdicts
    table = program.good("verdicts").splitlines()
    assert table[0].split() == ["ordinal", "verdict", "similar", "bits", "cluster", "page"]
    assert [line.split()[1] for line in table[1:]] == [json.loads(line)["verdict"] for line in printed]


def test_a_table_without_verdicts_says_how_to_wait_for_them(on_folder: Program) -> None:
    on_folder.good("topics", "create")
    done = on_folder.on_log("verdicts")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert done.stderr.startswith(b"simstream: no verdicts yet: --follow waits for them")


def test_only_verdicts_from_now_on_are_shown(on_folder: Program, cache: Path, tmp_path: Path) -> None:
    on_folder.good("topics", "create")
    verdict = on_folder.dedup(pages.write(tmp_path / "page.jsonl", 1))[0]
    old, new = (
        OutgoingVerdict(b"k", json.dumps(verdict | {"ordinal": ordinal}).encode(), ()) for ordinal in (1, 2)
    )
    out = tmp_path / "out"
    with on_folder.place.open() as log, log.open_publisher() as publisher, out.open("wb") as file:
        publisher.start()
        publisher.publish([old] * 3, b"0")
        showing = subprocess.Popen(
            command_line("verdicts", "--new", "--json", *on_folder.where),
            stdout=file,
            cwd=tmp_path,
            env=environment(cache),
        )
        try:

            def is_shown() -> bool:
                publisher.publish([new], b"0")
                return out.stat().st_size > 0

            until(is_shown, "a verdict is shown", every=0.1)
        finally:
            showing.kill()
            showing.wait()
    shown = [json.loads(line)["ordinal"] for line in out.read_text().splitlines()]
    assert shown
    assert set(shown) == {2}


def test_verdicts_ends_where_the_topic_ended_when_it_began_however_fast_it_grows(
    program: Program, tmp_path: Path
) -> None:
    program.good("topics", "create", "--partitions", 1)
    verdict = program.dedup(pages.write(tmp_path / "page.jsonl", 1))[0]
    value = OutgoingVerdict(b"k", json.dumps(verdict).encode(), ())
    with program.place.open() as log, log.open_publisher() as publisher, ThreadPoolExecutor(1) as pool:
        publisher.start()
        publisher.publish([value] * 3, b"0")
        ending = pool.submit(program.good, "verdicts", "--json")
        published = 3
        while not ending.done():
            publisher.publish([value] * 20, b"0")
            published += 20
        printed = ending.result().splitlines()
    assert 3 <= len(printed) <= published


def test_topics_are_made_once_and_said_to_exist_the_second_time(program: Program) -> None:
    first = program.good("topics", "create", "--partitions", 3).splitlines()
    assert [line.split()[0] for line in first] == ["created"] * 5
    second = program.good("topics", "create", "--partitions", 3).splitlines()
    assert [line.split()[0] for line in second] == ["exists"] * 5


def test_topics_that_differ_are_said_and_end_with_1(program: Program) -> None:
    program.good("topics", "create", "--partitions", 3)
    done = program.on_log("topics", "create", "--partitions", 2)
    assert done.returncode == 1
    assert done.stdout.decode().count("partitions: 3, not 2") == 2


def test_config_says_where_each_value_came_from(alone: Program) -> None:
    (alone.folder / "simstream.toml").write_text(
        'distance = 5\nwindow = "9h"\nlink = "canonical"\n[kafka]\n"sasl.password" = "p"'
    )
    done = alone.run("config", "--distance", 4, SIMSTREAM_DISTANCE="6", SIMSTREAM_WINDOW="8h")
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in done.stdout.decode().splitlines()}
    assert rows["distance"] == ["4", "flag --distance"]
    assert rows["window"] == ["8h", "variable SIMSTREAM_WINDOW"]
    assert rows["link"] == ["canonical", "file simstream.toml"]
    assert rows["recipe"] == ["default", "default"]
    assert rows["kafka.sasl.password"] == ["(hidden)", "file simstream.toml"]


def test_fingerprint_prints_hex_and_id(alone: Program) -> None:
    lines = [{"id": "a", "text": HARBOUR}, {"id": "b", "text": "short"}, {"id": "c\nd", "text": HARBOUR}]
    done = alone.run("fingerprint", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    value = f"{int(fingerprint([HARBOUR])[0]):016x}"
    assert done.stdout.decode() == f"{value}\ta\n{'-' * 16}\tb\n{value}\tc\ufffdd\n"


def test_near_pairs_go_from_stdin_to_stdout_and_all_that_is_said_to_stderr(alone: Program) -> None:
    done = alone.run("find-all", "-b", 6, "-d", 3, "-i", "-", "-o", "-", stdin=b"7\n1\n4096\n")
    assert (done.returncode, done.stdout) == (0, b"[1, 7]\n[1, 4096]\n")
    assert done.stderr.startswith(b"simstream: 3 fingerprints read, 3 of them distinct\n")
    done = alone.run("find-clusters", "-b", 6, "-d", 3, "-i", "-", "-o", "-", stdin=b"7\n1\n4096\n")
    assert (done.returncode, done.stdout) == (0, b"[1, 7, 4096]\n")
    assert alone.run("find-all").returncode == 2


def test_tokens_are_those_of_jieba(alone: Program) -> None:
    text = "他来到了网易杭研大厦"
    assert alone.run("tokens", text).stdout.decode().strip() == "他 / 来到 / 了 / 网易 / 杭研 / 大厦"
    assert alone.run("tokens", text, "--no-hmm").stdout.decode().strip() == "他 / 来到 / 了 / 网易 / 杭 / 研 / 大厦"
    assert json.loads(alone.run("tokens", "--json", stdin=text.encode()).stdout) == [
        "他", "来到", "了", "网易", "杭研", "大厦",
    ]  # fmt: skip


def test_tokens_come_in_jiebas_three_modes(alone: Program) -> None:
    text = "中国科学院"
    search = alone.run("tokens", text, "--mode", "search").stdout.decode().strip()
    full = alone.run("tokens", text, "--mode", "full").stdout.decode().strip()
    assert search == "中国 / 科学 / 学院 / 科学院 / 中国科学院"
    assert full == "中国 / 中国科学院 / 科学 / 科学院 / 学院"


@pytest.mark.parametrize("mode", ["accurate", "search", "full"])
def test_tokens_of_real_text_are_those_of_jieba_for_the_unchanged_text(
    alone: Program, oracle: jieba.Tokenizer, mode: str
) -> None:
    """Marks, full-width letters and traditional characters included: nothing is folded."""
    decoded = [decode(record, PageLimits()) for record in demo_records()]
    texts = ["ＡＢＣ，１２３。臺灣、㈱ ﬁ\u3000é\r\n", *(page.text for page in decoded if page.text)]
    written = "".join(json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts))
    (alone.folder / "texts.jsonl").write_text(written)
    cut = {
        "accurate": oracle.lcut,
        "search": oracle.lcut_for_search,
        "full": lambda text: oracle.lcut(text, cut_all=True),
    }[mode]
    printed = alone.run("tokens", "--mode", mode, "--json", "-i", "texts.jsonl").stdout.splitlines()
    assert [json.loads(line) for line in printed] == [cut(text) for text in texts]
    assert any("，" in json.loads(line) for line in printed)


def test_tokens_show_a_lone_surrogate_as_a_replacement_character(alone: Program) -> None:
    assert alone.run("tokens", "a\udcffb", "--json").stdout == '["a","\ufffd","b"]\n'.encode()


def test_tokens_show_no_control_character_of_a_page(alone: Program, tmp_path: Path) -> None:
    (tmp_path / "page.jsonl").write_text(json.dumps({"id": "a", "text": "\x1b]0;x\x07 \x9b31m \u202eabc"}))
    for flags in ((), ("--top", 9), ("--recipe", "default")):
        done = alone.run("tokens", "-i", "page.jsonl", *flags)
        shown = done.stdout.decode()
        assert (done.returncode, "abc" in shown) == (0, True)
        assert not set("\x1b\x07\x9b\u202e") & set(shown)


def test_tokens_of_a_deeply_nested_page_take_the_recipes_way(alone: Program, tmp_path: Path) -> None:
    (tmp_path / "deep.html").write_text("<div>" * 40_000 + "<p>The ferry crosses the river at noon. " * 30)
    (tmp_path / "main.toml").write_text('extract = "main"\n')
    assert "ferry" in alone.run("tokens", "-i", "deep.html").stdout.decode()
    refused = alone.run("tokens", "-i", "deep.html", "--recipe", "main.toml")
    assert "deep.html is unreadable: " in refused.stderr.decode()


def test_the_top_tokens_without_a_recipe_are_jiebas_tags(alone: Program) -> None:
    done = alone.run("tokens", "渡船过河，渡船停在渡口；the river, the ferry", "--top", 1, "--json")
    assert json.loads(done.stdout) == ["渡船"]


def test_the_heaviest_words_of_a_file_stand_below_the_id_of_their_page(alone: Program) -> None:
    texts = {"one": "渡船过河，渡船", "two": "下潮汐围棋"}
    (alone.folder / "two.jsonl").write_text(
        "".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in texts.items())
    )
    lines = alone.run("tokens", "-i", "two.jsonl", "--top", 1).stdout.decode().splitlines()
    assert lines[::2] == ["one:", "two:"]
    weighted = (
        alone.run("tokens", "-i", "two.jsonl", "--top", 1, "--recipe", "default").stdout.decode().splitlines()
    )
    assert weighted[::2] == ["one:", "two:"]


def test_a_recipe_file_decides_which_words_count(alone: Program) -> None:
    (alone.folder / "own.toml").write_text('mode = "search"\nstop_words = ["zh"]\nadd_words = ["潮汐围棋"]\n')
    done = alone.run("tokens", "我在中国科学院下潮汐围棋", "--recipe", "own.toml", "--json")
    words = {row[0] for row in json.loads(done.stdout)}
    assert words == {"中国", "科学", "学院", "科学院", "中国科学院", "潮汐", "围棋", "潮汐围棋"}


def test_fingerprints_come_as_bits_where_asked_for(alone: Program) -> None:
    source = pages.write(alone.folder / "pages.jsonl", 3)
    hexadecimal = alone.run("fingerprint", source, "--recipe", "fnv1-tf").stdout.decode().splitlines()
    bits = alone.run("fingerprint", source, "--recipe", "fnv1-tf", "--bits").stdout.decode().splitlines()
    shown = [line[:16] for line in hexadecimal]
    assert any(value != "-" * 16 for value in shown)
    expected = ["-" * 64 if "-" in value else f"{int(value, 16):064b}" for value in shown]
    assert [line[:64] for line in bits] == expected
    assert [line[16:] for line in hexadecimal] == [line[64:] for line in bits]


def test_tokens_with_a_recipe_are_words_with_weights_the_heaviest_first(alone: Program) -> None:
    done = alone.run("tokens", "他来到了网易杭研大厦，大厦", "--recipe", "default", "--json", "--top", 3)
    rows = json.loads(done.stdout)
    assert len(rows) == 3
    assert [row[2] for row in rows] == sorted((row[2] for row in rows), reverse=True)
    assert ["大厦", 2] in [row[:2] for row in rows]


@pytest.mark.parametrize(
    ("ending", "pack"),
    [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstd.compress)],
)
def test_packed_files_are_judged_as_plain_ones(alone: Program, ending: str, pack: object) -> None:
    plain = pages.write(alone.folder / "pages.jsonl", 80)
    packed = alone.folder / f"pages.jsonl{ending}"
    packed.write_bytes(pack(plain.read_bytes()))  # type: ignore[operator]
    without = [{**bare(v), "id": None} for v in alone.dedup(plain)]
    found = [{**bare(v), "id": None} for v in alone.dedup(packed)]
    assert [v["verdict"] for v in found] == [v["verdict"] for v in without]
    assert [v["fingerprint"] for v in found] == [v["fingerprint"] for v in without]


def html(folder: Path) -> Path:
    """A folder with pages in three encodings, and a file that is none."""
    site = folder / "site"
    (site / "deep").mkdir(parents=True)
    body = (
        "<p>"
        + "图书馆春天河流科学家研究发现火箭城市市场价格上涨学生老师医院疫苗足球比赛冠军电影导演音乐。" * 4
        + "</p>"
    )
    for name, charset in (("a.html", "utf-8"), ("deep/b.htm", "gb18030"), ("z.xhtml", "big5")):
        text = f'<html><head><meta charset="{charset}"></head><body><article>{body}</article></body></html>'
        (site / name).write_bytes(text.encode(charset, "xmlcharrefreplace"))
    (site / "notes.txt").write_text("not a page")
    return site


def test_a_folder_gives_its_html_files_in_byte_order_under_their_paths(alone: Program) -> None:
    site = html(alone.folder)
    verdicts = alone.dedup("site")
    assert [v["id"] for v in verdicts] == ["site/a.html", "site/deep/b.htm", "site/z.xhtml"]
    assert [v["verdict"] for v in verdicts] == ["new", "near_duplicate", "near_duplicate"]
    assert {v["fingerprint"] for v in verdicts[:2]} == {verdicts[0]["fingerprint"]}
    assert site.is_dir()


def test_html_files_go_through_the_service_as_through_dedup(program: Program) -> None:
    html(program.folder)
    program.good("topics", "create", "--partitions", 1)
    program.good("feed", "site")
    assert [bare(v) for v in program.judge(3)] == [bare(v) for v in program.dedup("site")]


def test_feed_says_how_many_pages_it_sent_and_draws_no_bar_into_a_pipe(program: Program, tmp_path: Path) -> None:
    program.good("topics", "create")
    done = program.on_log("feed", pages.write(tmp_path / "pages.jsonl", 30))
    assert done.stdout == b""
    first, warned = done.stderr.decode().splitlines()
    assert first == f"simstream: 30 pages sent to {program.place.prefix}.pages"
    assert "3 pages have the id of an earlier page" in warned


def test_help_names_every_command(alone: Program) -> None:
    text = alone.run("--help").stdout.decode()
    assert re.findall(r"^  ([a-z][a-z-]*)  ", text.partition("Commands:")[2], re.MULTILINE) == list(COMMANDS)


def test_an_output_file_is_replaced_only_by_a_whole_one_and_never_an_input(alone: Program, tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"id":"a","text":"one page that is long enough to be judged by its own words"}\n')
    out.write_text("kept")
    before = source.read_bytes()
    same = alone.run("dedup", source, "-o", source)
    assert (same.returncode, source.read_bytes()) == (2, before)
    refused = alone.run("dedup", "--window", "1h", source, "-o", out)
    assert (refused.returncode, out.read_text()) == (2, "kept")
    alone.good("dedup", source, "-o", out)
    assert out.read_text().count("\n") == 1
    Path(f"{out}.part").write_text("what a killed command left")
    alone.good("dedup", source, "-o", out)
    assert out.read_text().count("\n") == 1
    assert sorted(path.name for path in tmp_path.glob("*.part")) == []


@pytest.mark.parametrize("before", [b"as it was", None])
def test_an_output_through_a_link_replaces_the_file_and_the_link_stays(
    tmp_path: Path, before: bytes | None
) -> None:
    (tmp_path / "data").mkdir()
    link, real = tmp_path / "link.jsonl", tmp_path / "data" / "out.jsonl"
    link.symlink_to("data/out.jsonl")
    if before is not None:
        real.write_bytes(before)
    with written(str(link), []) as out:
        out.write(b"whole")
        assert [path.name for path in tmp_path.rglob("*.part")] == ["out.jsonl.part"]
        assert (tmp_path / "data" / "out.jsonl.part").exists()
        with pytest.raises(UsageError, match="another command writes"), written(str(real), []):
            pass
    assert os.readlink(link) == "data/out.jsonl"
    assert real.read_bytes() == b"whole"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["data", "link.jsonl", "out.jsonl"]


def test_an_output_through_a_link_into_no_folder_is_refused_before_anything_is_read(
    alone: Program, tmp_path: Path
) -> None:
    (tmp_path / "link.jsonl").symlink_to("nowhere/out.jsonl")
    (tmp_path / "in.jsonl").write_bytes(b"{}\n")
    done = alone.run("dedup", "in.jsonl", "-o", "link.jsonl")
    assert done.returncode == 2
    assert f"make the folder {tmp_path / 'nowhere'}".encode() in done.stderr


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_an_output_to_the_device_of_stdout_is_stdout(
    alone: Program, tmp_path: Path, cache: Path, name: str
) -> None:
    (tmp_path / "in.jsonl").write_bytes(b'{"id":"a","text":"one page"}\n')
    with (tmp_path / "out.jsonl").open("wb") as out:
        out.write(b"before\n")
        out.flush()
        command = command_line("dedup", "in.jsonl", "-o", name)
        subprocess.run(command, stdout=out, cwd=tmp_path, env=environment(cache), check=True, timeout=PATIENCE_S)
    before, verdict = (tmp_path / "out.jsonl").read_bytes().splitlines()
    assert (before, json.loads(verdict)["id"]) == (b"before", "a")
    both = alone.run("dedup", "in.jsonl", "-o", "-", "--pairs", name)
    assert both.returncode == 2
    assert b"--output and --pairs go to the same place" in both.stderr


def test_a_second_command_for_an_output_is_refused_and_the_first_one_writes_it_whole(
    alone: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with written("out.jsonl", []) as out:
        out.write(b"the first\n")
        second = alone.run("dedup", "-", "-o", tmp_path / "out.jsonl", stdin=b'{"text":"a page"}')
        out.write(b"goes on\n")
    assert second.returncode == 2
    assert b"another command writes" in second.stderr
    assert b"out.jsonl: wait for its end, or name another file" in second.stderr
    assert Path("out.jsonl").read_bytes() == b"the first\ngoes on\n"
