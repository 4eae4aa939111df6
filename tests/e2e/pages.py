"""Pages made for the end-to-end tests: seeded, in Chinese and English, with everything that a crawl brings."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

_HAN = (
    "图书馆 地铁 春天 河流 科学家 研究 发现 火箭 城市 市场 价格 上涨 学生 老师 医院 疫苗 "
    "足球 比赛 冠军 电影 导演 音乐 天气 暴雨 台风 农民 丰收 小麦 铁路 桥梁 工程 投资 "
    "银行 利率 政策 会议 代表 合作 协议 出口 汽车 电池 能源 太阳能 海洋 鲸鱼 森林 保护 "
    "博物馆 展览 古代 文物 互联网 软件 开源 芯片 手机 用户 隐私 法院 判决 旅游 酒店 航班 "
    "机场 奥运会 "
)
_LATIN = (
    "harbour lantern market railway station engineer bridge river winter storm library museum painting violin "
    "orchard wheat farmer village council budget election senator climate glacier whale forest telescope comet "
    "battery electric vehicle factory worker strike hospital vaccine trial court verdict festival film director "
    "football champion coach software kernel network privacy airline passenger tourist hotel island ferry captain"
)
STORY = "江边的老图书馆周六重新开放，馆员把修补好的地方志摆上书架，居民排队办理借书证，孩子们在院子里听故事。"
TRAIN = "The night train now stops at the mill village again after forty years, and the baker opens before dawn."
ORCHARD = (
    "Farmers of the northern orchard sold the last wheat of a dry summer before the council closed the bridge."
)
HARBOUR = (
    "the quiet harbour lantern maker sold twelve brass lamps before the winter storm closed the old market road"
)
CHINESE = _HAN.split()
ENGLISH = _LATIN.split()


def text(rng: random.Random, words: int = 60) -> str:
    """Running text of one language."""
    if rng.random() < 0.5:
        return "".join(rng.choice(CHINESE) + ("，" if rng.random() < 0.15 else "") for _ in range(words)) + "。"
    return " ".join(rng.choice(ENGLISH) for _ in range(words)) + "."


def edited(rng: random.Random, original: str, changes: int) -> str:
    """The same with a few of its words replaced."""
    separator = "，" if "，" in original else " "
    parts = original.split(separator)
    for _ in range(changes):
        parts[rng.randrange(len(parts))] = rng.choice(CHINESE if separator == "，" else ENGLISH)
    return separator.join(parts)


def page(rng: random.Random, number: int, told: list[dict[str, Any]]) -> dict[str, Any]:
    """The next page: new, a copy, an edit, a re-crawl, or something that cannot be judged."""
    chance = rng.random()
    page_id = f"https://site{number % 7}.example/{number}"
    made: dict[str, Any] = {"id": page_id, "url": page_id, "time": 1_700_000_000_000 + number * 60_000}
    if told and chance < 0.30:
        made["text"] = edited(rng, rng.choice(told)["text"], rng.randrange(4))
    elif told and chance < 0.40:
        again = rng.choice(told)
        made |= {"id": again["id"], "url": again["url"]}
        made["text"] = edited(rng, again["text"], rng.choice([0, 0, 1, 30]))
    elif chance < 0.43:
        made |= {"text": "太短" if number % 2 else "", "url": None}
    elif chance < 0.45:
        made |= {"text": "gone", "status": rng.choice([404, 410, 500])}
    elif chance < 0.47:
        made |= {"text": 7}
    elif chance < 0.50:
        made["html"] = f"<html><body><article><p>{text(rng, 120)}</p></article></body></html>"
    else:
        made["text"] = text(rng)
    return made


def lines(count: int, seed: int = 1) -> list[bytes]:
    """So many pages as lines of JSONL; about one in a hundred is broken JSON, about one in fifty has no name."""
    rng = random.Random(seed)
    told: list[dict[str, Any]] = []
    out = []
    for number in range(count):
        made = page(rng, number, told)
        if isinstance(made.get("text"), str) and len(made["text"]) > 40:
            told.append(made)
        if rng.random() < 0.02:
            made = {name: value for name, value in made.items() if name not in ("id", "url")}
        line = json.dumps(made, ensure_ascii=False).encode()
        out.append(line[:-5] if rng.random() < 0.01 else line)
    return out


def write(path: Path, count: int, seed: int = 1) -> Path:
    """The same as a file."""
    path.write_bytes(b"\n".join(lines(count, seed)) + b"\n")
    return path
