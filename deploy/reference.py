"""Writes the pages of docs/reference that are made of the code: `python -m deploy.reference`.

A test compares the files with what the code says. The sentence on a setting or a field is the docstring below it.
"""

from __future__ import annotations

import ast
import html
import inspect
import json
import re
import textwrap
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from click.testing import CliRunner

from deploy import asyncapi
from simstream import settings
from simstream.cli.find_options import FindCommand
from simstream.cli.main import COMMANDS, main
from simstream.model import Verdict
from simstream.roles.fingerprint.dead_letters import LetterHeaders
from simstream.settings import Settings
from simstream.telemetry.metrics import NO_DEAD_LETTER, Metrics
from simstream.telemetry.news_metrics import NewsMetrics
from simstream.telemetry.registry import MetricLabel
from simstream.tools.dedup.groups import DuplicateGroup
from simstream.tools.dedup.row_layouts import ExactPair, FinalRecord, NearPair
from simstream.tools.explain.reasons import MEANINGS
from simstream.wire.page import PageFields
from simstream.wire.position import Position
from simstream.wire.verdict_schemas import path_of, text_of

FOLDER: Final = Path(__file__).parents[1] / "docs/reference"
RECORDS: Final = {
    "page": (PageFields, "A JSON page: a record of the topic `pages`, or a line of an input file."),
    "verdict": (Verdict, "A record of the topic `verdicts`, or a line that `dedup` writes."),
    "final-verdict": (FinalRecord, "A line that `dedup --final` writes: a verdict, and these fields."),
    "pair": (NearPair, "A line of `dedup --pairs`."),
    "exact-pair": (ExactPair, "A line of `dedup --pairs` with `--exact` or `--least-jaccard`: also this field."),
    "cluster": (DuplicateGroup, "A line of `dedup --clusters`."),
    "dead-letter": (LetterHeaders, "The headers that a record of the topic `dead-letters` adds to its page's own."),
    "position": (Position, "A record of the topic `positions`: how far the judge has published."),
}
"""Each record's name, its class, and what it is."""
ARCHITECTURE: Final = FOLDER.parents[1] / "stream/ARCHITECTURE.md"
WORDS: Final = (
    "page",
    "identity",
    "word",
    "fingerprint",
    "lookup",
    "sketch, agreement",
    "similarity",
    "true Jaccard similarity (J)",
    "distance",
    "candidate, match",
    "cluster",
    "age, canonical page, heir",
    "link rule",
    "recipe",
    "policy",
    "short page",
    "stream time, window",
    "live page, late page",
    "log",
    "frame",
    "ordinal",
    "position",
    "shard",
    "matcher, copy",
    "address pattern, plain address",
)
"""The words of the glossary for users, in the order of reading."""
SHARED_BY: Final = 4
"""An option that so many commands take, in the same words, stands once at the top of the page."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def code(text: str) -> str:
    """Return text as code. A bar would end the cell of a table on some sites and not on others."""
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


def sentences(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a struct, by the field's name."""
    found = sentences(base) if (base := kind.__base__) is not None and base is not msgspec.Struct else {}
    [body] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    for field, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            found[field.target.id] = " ".join(inspect.cleandoc(ast.literal_eval(after.value)).split())
    return found


def settings_page() -> str:
    """Return a table of all settings with their variables and defaults."""
    rows = []
    for name in settings.names():
        kind, field = _owner(name)
        default = next(each for each in msgspec.structs.fields(kind) if each.name == field)
        computed = default.default_factory is not msgspec.NODEFAULT
        value = "" if computed or default.default is None else f"`{json.dumps(default.default)}`"
        rows.append([f"`{name}`", value, sentences(kind).get(field, "")])
    return table(("setting", "default", "meaning"), rows)


def _owner(name: str) -> tuple[type, str]:
    """Return the class that has a dotted setting, and the field's own name."""
    group, _, inner = name.partition(".")
    return (type(getattr(Settings(), group)), inner) if inner else (Settings, group)


def commands_page() -> str:
    """Return the list of commands, the shared options, and each command with its arguments and its own options."""
    contexts = list(_contexts(main, click.Context(main, info_name="simstream")))
    counts = Counter(option for context in contexts for option in _options(context))
    shared = {option: None for option in counts if counts[option] >= SHARED_BY}
    parts = [table(("command", "what it does"), ((f"[{name}](#{name})", COMMANDS[name]) for name in COMMANDS))]
    parts += [
        "## Shared options\n",
        "Several commands take these options. Each command names its shared options.\n",
    ]
    parts.append(table(("option", "meaning"), shared))
    return "\n".join([*parts, *(part for context in contexts for part in _command(context, shared))])


def _contexts(group: click.Group, parent: click.Context) -> Iterator[click.Context]:
    """Yield each command below a group, and the commands of inner groups behind their group."""
    for name in COMMANDS if group is main else group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=parent, terminal_width=100)
        yield context
        if isinstance(command, click.Group):
            yield from _contexts(command, context)


def _options(context: click.Context) -> list[tuple[str, str]]:
    """Return each option of a command and its meaning, in Markdown."""
    if isinstance(context.command, FindCommand):
        return []
    records = [each.get_help_record(context) for each in context.command.params if isinstance(each, click.Option)]
    return [(code(each[0]), _text(each[1])) for each in records if each]


def _command(context: click.Context, shared: Container[tuple[str, str]]) -> Iterator[str]:
    command = context.command
    title = "## " if context.parent and context.parent.command is main else "### "
    yield f"{title}{context.command_path.removeprefix('simstream ')}\n"
    if isinstance(command, FindCommand):
        helped = CliRunner().invoke(command, ["--help"], prog_name=context.command_path).output
        yield f"```\n{helped.strip()}\n```\n"
        return
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{context.command_path} {usage}\n```\n"
    yield inspect.cleandoc(command.help or "").replace("\b\n", "") + "\n"
    options = _options(context)
    if own := [option for option in options if option not in shared]:
        yield table(("option", "meaning"), own)
    if names := ", ".join(_name(option) for option in options if option in shared):
        yield f"[Shared options](#shared-options): {names}.\n"


def _name(option: tuple[str, str]) -> str:
    """Return the name of an option without its value, as code."""
    found = re.search(r"--[a-z-]+", option[0])
    assert found
    return f"`{found[0]}`"


def _text(sentence: str) -> str:
    """Return a help text as Markdown that shows each character as it stands."""
    return (
        re.sub(r" +", " ", html.escape(sentence, quote=False))
        .replace("|", "&#124;")
        .replace("*", "\\*")
        .replace("[", "\\[")
    )


def metrics_page() -> str:
    """Return a table of all metrics."""
    rows = [
        [f"`{each.name}`", f"{each.kind}, {each.unit}", "; ".join(map(_label, each.labels)), each.sentence]
        for each in (*Metrics().described, *NewsMetrics().described)
    ]
    return table(("metric", "kind, unit", "labels", "meaning"), rows)


def _label(label: MetricLabel) -> str:
    return f"`{label.name}`: " + (", ".join(label.values) or label.bound)


def schema(kind: type) -> str:
    """Return the JSON Schema of a record, with the sentence on each field."""
    [found], parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    tree: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema", **parts.pop(kind.__name__)}
    assert found == {"$ref": f"#/$defs/{kind.__name__}"}
    for one in (tree, *parts.values()):
        if "description" in one:  # Python 3.13 takes a docstring's indentation away, earlier versions keep it
            one["description"] = inspect.cleandoc(one["description"])
    said = sentences(kind)
    for field in fields(kind):
        if field.name in said:
            tree["properties"][field.encode_name]["description"] = said[field.name]
    return json.dumps(tree | ({"$defs": parts} if parts else {}), indent=2, ensure_ascii=False) + "\n"


def records_page() -> str:
    """Return a table of each record's own fields, with a link to its schema, and the reasons of verdicts."""
    parts = []
    for name, (kind, sentence) in RECORDS.items():
        tree = json.loads(schema(kind))
        rows = [
            [f"`{field}`", _type(found, tree), found.get("description", "")]
            for field, found in tree["properties"].items()
            if field not in getattr(kind.__base__, "__struct_fields__", ())
        ]
        parts.append(f"## {name.replace('-', ' ').capitalize()}\n\n{sentence} [JSON Schema]({name}.schema.json)\n")
        parts.append(table(("field", "type", "meaning"), rows))
    parts += ["## Reasons\n", "What the field `reason` of a verdict says of the page.\n", reasons_table()]
    return "\n".join(parts)


def reasons_table() -> str:
    """Return a table of the reasons of verdicts."""
    rows = [
        [
            f"`{reason}`",
            "`too_short`" if reason in NO_DEAD_LETTER else "`unreadable`",
            f"{meaning[0].upper()}{meaning[1:]}.",
        ]
        for reason, meaning in MEANINGS.items()
    ]
    return table(("reason", "verdict", "meaning"), rows)


def glossary_page() -> str:
    """Return the words of the architecture's glossary that users meet, with their meanings."""
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", ARCHITECTURE.read_text(encoding="utf-8"), re.MULTILINE))
    return table(("word", "meaning"), ([word, rows[word]] for word in WORDS))


def fields(kind: type) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a struct, in the order of the record."""
    return msgspec.structs.fields(kind)


def _type(found: dict[str, Any], tree: dict[str, Any]) -> str:
    """Return the type of a property in words: "string or null", "array of string"."""
    if "anyOf" in found:
        return " or ".join(_type(one, tree) for one in found["anyOf"])
    if "$ref" in found:
        inner = tree["$defs"][found["$ref"].rpartition("/")[2]]
        return (
            "object of " + ", ".join(f"`{name}`" for name in inner["properties"])
            if "properties" in inner
            else "string"
        )
    if "enum" in found:
        return ", ".join(f"`{one}`" for one in found["enum"])
    return f"array of {found['items']['type']}" if found["type"] == "array" else str(found["type"])


def pages() -> dict[str, str]:
    """Return the text of each generated file, by its name: what stands above the mark stays as it is."""
    made = {
        "settings": settings_page,
        "commands": commands_page,
        "metrics": metrics_page,
        "records": records_page,
        "glossary": glossary_page,
    }
    texts = {}
    for name, make in made.items():
        above, mark, _ = (FOLDER / f"{name}.md").read_text(encoding="utf-8").partition(MARK)
        assert mark, f"docs/reference/{name}.md has no line {MARK.strip()!r}"
        texts[f"{name}.md"] = f"{above}{MARK}\n{make()}"
    texts["asyncapi.json"] = json.dumps(asyncapi.make_document(), indent=2, ensure_ascii=False) + "\n"
    texts |= {path_of(form).name: text_of(form) for form in ("avro", "protobuf")}
    return texts | {f"{name}.schema.json": schema(kind) for name, (kind, _) in RECORDS.items()}


MARK: Final = "<!-- made by `python -m deploy.reference`: change the code, not the lines below -->\n"

if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
