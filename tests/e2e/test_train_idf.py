"""`simstream train-idf` as its user runs it: the table that jieba takes, interruptions, and what is refused."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import signal
import subprocess
from pathlib import Path

import jieba
import jieba.analyse
import pytest

from simstream.cli.main import invoke
from simstream.tools.train_idf.state import TrainingFolder, TrainingState
from tests.e2e import pages
from tests.e2e.harness import Program, command_line, environment
from tests.waiting import until

PAGES = 4_000


def corpus(count: int = PAGES) -> bytes:
    rng = random.Random(3)
    texts = [pages.text(rng, 30) + f" {rng.randrange(5_000)} {rng.choice('甲乙丙丁')}方" for _ in range(count)]
    return b"".join(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n" for text in texts)


def table(path: Path) -> dict[str, float]:
    rows = [line.split(" ") for line in path.read_text(encoding="utf-8").splitlines()]
    return {word: float(idf) for word, idf in rows}


@pytest.fixture
def jiebas_own_tfidf(oracle: jieba.Tokenizer) -> jieba.analyse.TFIDF:
    extractor = jieba.analyse.TFIDF()
    extractor.tokenizer = oracle
    return extractor


def test_jieba_takes_the_table_and_ranks_words_by_it(alone: Program, jiebas_own_tfidf: jieba.analyse.TFIDF) -> None:
    told = ["图书馆里的读者发现火箭", "图书馆里的读者发现足球", "图书馆里的读者保护鲸鱼", "科学家研究春天的河流"]
    lines = [json.dumps({"text": f"{text}，城市市场价格上涨学生老师医院疫苗"}) for text in told]
    done = alone.run("train-idf", "-", "-o", "own.idf", "--min-pages", 1, stdin="\n".join(lines).encode())
    assert done.returncode == 0, done.stderr.decode()
    found = table(alone.folder / "own.idf")
    assert found["图书馆"] == pytest.approx(math.log(5 / 4), abs=1e-6)
    assert found["鲸鱼"] == pytest.approx(math.log(5 / 2), abs=1e-6)
    assert found["疫苗"] == 0
    jiebas_own_tfidf.set_idf_path(str(alone.folder / "own.idf"))
    assert jiebas_own_tfidf.idf_freq == found
    assert jiebas_own_tfidf.extract_tags("图书馆鲸鱼疫苗", topK=2) == ["鲸鱼", "图书馆"]


def test_html_and_folders_count_as_dedup_reads_them_and_broken_pages_do_not(alone: Program) -> None:
    site = alone.folder / "site"
    site.mkdir()
    body = "<p>" + "图书馆春天河流科学家研究发现火箭城市市场价格上涨学生老师医院疫苗足球比赛冠军。" * 4 + "</p>"
    (site / "a.html").write_text(f"<html><body><article>{body}</article></body></html>", encoding="utf-8")
    more = ['{"text": 7}', '{"text": "太短"}', '{"text": "' + pages.CHINESE[0] * 30 + '"}', "{broken"]
    (alone.folder / "more.jsonl").write_text("\n".join(more), encoding="utf-8")
    done = alone.run("train-idf", "site", "more.jsonl", "-o", "own.idf", "--min-pages", 1)
    assert done.returncode == 0, done.stderr.decode()
    assert "of 1 page in" in done.stderr.decode()
    assert "2 of 5 pages could not be read: 1 wrong_type (first more.jsonl, line 1)" in done.stderr.decode()
    assert "火箭" in table(alone.folder / "own.idf")


@pytest.mark.parametrize("recipe", ["default", "google2007", "mine/own.toml"])
def test_its_last_words_make_a_recipe_with_the_table(recipe: str, alone: Program) -> None:
    (alone.folder / "mine").mkdir()
    (alone.folder / "mine" / "own.toml").write_text("tf_power = 1\n")
    done = alone.run("train-idf", "-", "-o", "new.idf", "--recipe", recipe, stdin=corpus(300))
    said = done.stderr.decode()
    told = said[said.index("to use it") :].splitlines()
    made = alone.folder / told[-1].removeprefix("and give --recipe ")
    with made.open("a", encoding="utf-8") as file:
        file.writelines(line.strip() + "\n" for line in told[1:-1])
    shown = alone.run("tokens", "--recipe", made, "--json", "图书馆，鲸鱼。")
    weights = {word: weight for word, _, weight in json.loads(shown.stdout)}
    expected = table(alone.folder / "new.idf")
    assert weights == {word: pytest.approx(expected[word], abs=1e-4) for word in ("图书馆", "鲸鱼")}


def start(program: Program, cache: Path, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command_line("train-idf", "-", "-o", "own.idf", *arguments),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=program.folder,
        env=environment(cache),
    )


def wait_for_state(path: Path, process: subprocess.Popen[bytes]) -> None:
    until(lambda: path.exists() and json.loads(path.read_bytes())["records"], "a state is saved", process=process)


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
@pytest.mark.long
def test_after_an_interrupt_or_a_kill_resume_gives_the_same_bytes(
    how: signal.Signals, code: int, alone: Program, cache: Path
) -> None:
    lines = corpus()
    done = alone.run("train-idf", "-", "-o", "whole.idf", stdin=lines)
    assert done.returncode == 0, done.stderr.decode()
    process = start(alone, cache, "--save-every", "1ms", "--memory", "100KB")
    assert process.stdin is not None
    process.stdin.write(lines[: len(lines) * 3 // 4])
    process.stdin.flush()
    wait_for_state(alone.folder / "own.idf.state" / "state.json", process)
    process.send_signal(how)
    said = process.communicate()[1].decode()
    assert process.returncode == code
    assert ("--resume" in said) == (how == signal.SIGINT)
    assert not (alone.folder / "own.idf").exists()

    again = alone.run("train-idf", "-", "-o", "own.idf", stdin=lines)
    assert again.returncode == 2
    assert "--resume" in again.stderr.decode()
    other = alone.run("train-idf", "-", "-o", "own.idf", "--resume", stdin=lines.replace("图书馆".encode(), b"x"))
    assert other.returncode == 1
    assert "pages differ from the counted ones" in other.stderr.decode()
    resumed = alone.run("train-idf", "-", "-o", "own.idf", "--resume", stdin=lines)
    assert resumed.returncode == 0, resumed.stderr.decode()
    assert "continues after" in resumed.stderr.decode()
    assert (alone.folder / "own.idf").read_bytes() == (alone.folder / "whole.idf").read_bytes()
    assert sorted(path.name for path in alone.folder.iterdir()) == ["own.idf", "whole.idf"]


def test_another_recipe_or_a_damaged_run_is_refused_by_name(alone: Program, cache: Path) -> None:
    lines = corpus()
    process = start(alone, cache, "--save-every", "1ms")
    assert process.stdin is not None
    process.stdin.write(lines)
    process.stdin.flush()
    state = alone.folder / "own.idf.state" / "state.json"
    wait_for_state(state, process)
    process.kill()
    process.communicate()
    other = alone.run("train-idf", "-", "-o", "own.idf", "--resume", "--recipe", "google2007", stdin=lines)
    assert other.returncode == 1
    assert "was made by the recipe" in other.stderr.decode()
    run = state.parent / json.loads(state.read_bytes())["runs"][0]["name"]
    os.truncate(run, run.stat().st_size - 1)
    damaged = alone.run("train-idf", "-", "-o", "own.idf", "--resume", stdin=lines)
    assert damaged.returncode == 1
    assert f"{run.name} is damaged: delete own.idf.state" in damaged.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("in.jsonl",), "-o"),
        (("in.jsonl", "-o", "in.jsonl"), "is an input, too"),
        (("in.jsonl", "-o", "."), "is a folder"),
        (("folder", "-o", "folder/a.txt"), "is an input, too"),
        (("in.jsonl", "-o", "no/where.idf"), "cannot be made"),
        (("gone.jsonl", "-o", "out.idf"), "gone.jsonl"),
        (("in.jsonl", "-o", "out.idf", "--memory", "lots"), "give bytes such as 512MB"),
        (("in.jsonl", "-o", "out.idf", "--save-every", "often"), "give a positive duration"),
        (("in.jsonl", "-o", "out.idf", "--min-pages", "9"), "no word is on 9 of 3 pages"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_to_do(arguments: tuple[str, ...], said: str, alone: Program) -> None:
    (alone.folder / "in.jsonl").write_bytes(corpus(3))
    (alone.folder / "folder").mkdir()
    (alone.folder / "folder" / "a.txt").write_text("words")
    done = alone.run("train-idf", *arguments)
    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert not (alone.folder / "out.idf").exists()


def test_without_a_page_to_count_there_is_no_table_and_nothing_is_left_behind(alone: Program) -> None:
    done = alone.run("train-idf", "-", "-o", "own.idf", stdin=b'{"text":"few words"}\n')
    assert done.returncode == 1
    assert "no page of the input has 8 distinct words" in done.stderr.decode()
    assert list(alone.folder.iterdir()) == []


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_a_folder_that_holds_other_files_is_refused_and_stays_as_it_is(
    tmp_path: Path, resume: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "own.idf.state"
    (folder / "photos").mkdir(parents=True)
    (folder / "photos" / "one.jpg").write_bytes(b"one")
    (folder / "letter.txt").write_bytes(b"a letter")
    (tmp_path / "in.jsonl").write_bytes(corpus(3))
    assert invoke(["train-idf", str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "own.idf"), *resume]) == 2
    said = capsys.readouterr().err
    assert f"{folder} is not the state of a training: it holds other files (letter.txt, photos)" in said
    assert sorted(path.name for path in folder.rglob("*")) == ["letter.txt", "one.jpg", "photos"]
    assert not (tmp_path / "own.idf").exists()


def test_only_the_files_of_a_training_are_removed_with_its_folder(tmp_path: Path) -> None:
    folder = TrainingFolder(tmp_path / "own.idf", resume=False)
    for name in ("run-000001", "state.json.12.part", "later.txt"):
        (folder.path / name).write_bytes(b"")
    folder.save(TrainingState("12345678"))
    assert sorted(path.name for path in folder.path.iterdir()) == ["later.txt", "lock", "state.json"]
    folder.remove()
    folder.close()
    assert [path.name for path in folder.path.iterdir()] == ["later.txt"]


def test_damage_of_the_input_keeps_the_counts_for_resume(alone: Program) -> None:
    packed = gzip.compress(corpus(900))
    (alone.folder / "in.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    broken = alone.run("train-idf", "in.jsonl.gz", "-o", "own.idf")
    assert broken.returncode == 1
    assert "damaged or cut off" in broken.stderr.decode()
    (alone.folder / "in.jsonl.gz").write_bytes(packed)
    assert alone.run("train-idf", "in.jsonl.gz", "-o", "own.idf", "--resume").returncode == 0
    assert alone.run("train-idf", "in.jsonl.gz", "-o", "whole.idf").returncode == 0
    assert (alone.folder / "own.idf").read_bytes() == (alone.folder / "whole.idf").read_bytes()
