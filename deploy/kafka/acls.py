"""The rights on Kafka that each kind of user needs, and no others.

    python -m deploy.kafka.acls --prefix simstream --bootstrap-server HOST:PORT --user judge=User:judge

prints the `kafka-acls` commands. It takes `--publish-to NAME`, `--matches NAME`, `--pages-topic NAME` and the other
topics' names, as every command does. The table in docs/operate/security.md is made from the same list.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shlex import quote

from deploy.kafka.jars import say_on_stderr
from simstream.errors import SettingsError
from simstream.log.options import MATCHES, NAMED, PAGES, TOPICS, LogOptions, setting_of

TOPIC, GROUP, TRANSACTION = "topic", "group", "transactional-id"
_MATCHERS = ("matchers", "matchers-2", "matchers-3")
"""The groups of matchers, by copy of the index."""


@dataclass(frozen=True, slots=True)
class AclGrant:
    """Operations on a thing with the name PREFIX.`name`, or with the name that the options give it.

    If the name is empty or ends with a dot, on all names that begin so.
    """

    kind: str
    name: str
    operations: tuple[str, ...]
    why: str

    def full_name(self, options: LogOptions) -> str:
        """Return the name in Kafka."""
        if self.kind == TOPIC and self.name in (*TOPICS, MATCHES):
            return options.full_name(self.name)
        if self.name in _MATCHERS:
            return options.matchers_group(1 + _MATCHERS.index(self.name))
        if self.name == "fingerprint":
            return f"{options.log_prefix}.{self.name}"
        return f"{options.prefix if self in (QUIET, ALL_TOPICS, ALL_GROUPS) else options.judged_prefix}.{self.name}"

    @property
    def is_prefix(self) -> bool:
        """Whether it stands for all names that begin so."""
        return not self.name or self.name.endswith(".")

    def command(self, options: LogOptions, principal: str, servers: str = "HOST:PORT") -> str:
        """Return the `kafka-acls` call that grants it."""
        pattern = " --resource-pattern-type prefixed" if self.is_prefix else ""
        name = self.full_name(options)
        operations = "".join(f" --operation {operation}" for operation in self.operations)
        return (
            f"kafka-acls --bootstrap-server {servers} --command-config admin.properties --add "
            f"--allow-principal {quote(principal)}{operations} --{self.kind} {quote(name)}{pattern}"
        )


ALL_TOPICS = AclGrant(
    TOPIC, "", ("Create", "Describe", "DescribeConfigs", "Read"), "topics create, status, explain"
)
ALL_GROUPS = AclGrant(GROUP, "", ("Describe", "Read"), "status, source rewind")
QUIET = AclGrant(GROUP, "reader", ("Describe",), "nothing: the client asks for it, and brokers log the refusal")
GRANTS: dict[str, tuple[AclGrant, ...]] = {
    "fingerprint": (
        AclGrant(TOPIC, "pages", ("Read",), "the pages that it fingerprints"),
        AclGrant(
            TOPIC,
            "fingerprints",
            ("Read", "Write", "DescribeConfigs"),
            "its frames; the log's recipe; the topic's limit",
        ),
        AclGrant(TOPIC, "positions", ("Read",), "the recipe of a log whose frames have all expired"),
        AclGrant(TOPIC, "verdicts", ("Describe",), "whether it is there, before a position is read"),
        AclGrant(TOPIC, "dead-letters", ("Write", "DescribeConfigs"), "unreadable pages"),
        AclGrant(GROUP, "fingerprint", ("Read",), "shares and commits"),
        QUIET,
    ),
    "judge": (
        AclGrant(TOPIC, "fingerprints", ("Read", "DescribeConfigs"), "the frames that it judges; their retention"),
        AclGrant(
            TOPIC,
            "verdicts",
            ("Read", "Write", "DescribeConfigs"),
            "the verdicts that it publishes; whether there are any",
        ),
        AclGrant(
            TOPIC, "positions", ("Read", "Write", "DescribeConfigs"), "its published position; the topic's settings"
        ),
        AclGrant(
            TOPIC, "matches", ("Read", "DescribeConfigs"), "whether its index is on matchers; their answers if so"
        ),
        AclGrant(GROUP, "judge", ("Read",), "the election"),
        AclGrant(GROUP, "judge-claim", ("Read",), "the last publisher"),
        QUIET,
        AclGrant(TRANSACTION, "judge", ("Describe", "Write"), "verdicts and position in one transaction"),
    ),
    "match": (
        AclGrant(
            TOPIC, "fingerprints", ("Read", "DescribeConfigs"), "the frames that it answers; the topic's settings"
        ),
        AclGrant(
            TOPIC,
            "positions",
            ("Read", "DescribeConfigs"),
            "the position up to which it may answer; the topic's settings",
        ),
        AclGrant(TOPIC, "verdicts", ("Describe",), "whether it is there, before a position is read"),
        AclGrant(
            TOPIC, "matches", ("Read", "Write", "DescribeConfigs"), "its answers; how far each shard has answered"
        ),
        AclGrant(GROUP, _MATCHERS[0], ("Read",), "shares of the shards"),
        AclGrant(GROUP, _MATCHERS[1], ("Read",), "the same with --copy 2"),
        AclGrant(GROUP, _MATCHERS[2], ("Read",), "the same with --copy 3"),
        QUIET,
    ),
    "query": (
        AclGrant(TOPIC, "fingerprints", ("Read", "DescribeConfigs"), "the frames that it follows; their retention"),
        AclGrant(TOPIC, "positions", ("Read",), "the position up to which it may follow"),
        AclGrant(TOPIC, "verdicts", ("Read",), "verdicts of pages that it was asked to judge"),
        AclGrant(TOPIC, "pages", ("Write", "DescribeConfigs"), "pages that it was asked to judge"),
        QUIET,
    ),
    "news": (
        AclGrant(TOPIC, "pages", ("Read",), "titles and texts"),
        AclGrant(TOPIC, "verdicts", ("Read",), "the verdicts that it shows"),
        AclGrant(TOPIC, "news2.", ("Create", "Describe", "DescribeConfigs", "Read", "Write"), "its own table"),
        AclGrant(GROUP, "news2.", ("Read",), "the place of the one process that shows the stories"),
        AclGrant(TRANSACTION, "news2.", ("Describe", "Write"), "its own table, all or nothing"),
        QUIET,
    ),
    "feed": (AclGrant(TOPIC, "pages", ("Write", "DescribeConfigs"), "a crawler's pages; the topic's limit"),),
    "reader": (
        AclGrant(TOPIC, "verdicts", ("Read",), "verdicts; your consumer group needs Read on it, too"),
        QUIET,
    ),
    "operator": (
        ALL_TOPICS,
        AclGrant(TOPIC, "fingerprints", ("Write",), "source skip"),
        AclGrant(TOPIC, "pages", ("Write",), "dead-letters replay"),
        AclGrant(TOPIC, "dead-letters", ("Write",), "dead-letters replay: marks of sent pages"),
        ALL_GROUPS,
    ),
}
"""The grants of each kind of user. Read and Write on a topic include Describe."""


def grants_of(role: str, options: LogOptions) -> tuple[AclGrant, ...]:
    """Return what a role needs.

    An operator also needs a grant for each topic and group whose name does not begin with PREFIX.
    """
    if role != "operator":
        return GRANTS[role]
    each = [AclGrant(TOPIC, topic, ALL_TOPICS.operations, ALL_TOPICS.why) for topic in (*TOPICS[1:], MATCHES)]
    each += [
        AclGrant(GROUP, name, ALL_GROUPS.operations, ALL_GROUPS.why)
        for name in ("fingerprint", "judge", "judge-claim", *_MATCHERS)
    ]
    each.append(AclGrant(TOPIC, PAGES, ("Read",), ALL_TOPICS.why))
    usual = ALL_TOPICS.full_name(options)
    return (*GRANTS[role], *(one for one in each if not one.full_name(options).startswith(usual)))


def commands(role: str, options: LogOptions, principal: str, servers: str = "HOST:PORT") -> list[str]:
    """Return the calls that grant a role all that it needs."""
    return [grant.command(options, principal, servers) for grant in grants_of(role, options)]


def table() -> str:
    """Return the grants as a table in Markdown."""
    lines = ["| who | may | on | for |", "|---|---|---|---|"]
    options = LogOptions(prefix="PREFIX")
    for role, grants in GRANTS.items():
        for grant in grants:
            name = grant.full_name(options) + ("*" if grant.is_prefix else "")
            lines.append(f"| {role} | {', '.join(grant.operations)} | {grant.kind} `{name}` | {grant.why} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the commands for the requested roles, or for all."""
    parser = argparse.ArgumentParser(description="Print the kafka-acls commands that simstream's users need.")
    parser.add_argument("--prefix", metavar="NAME", default="simstream")
    parser.add_argument("--publish-to", metavar="NAME", help="the prefix of verdicts (default: --prefix)")
    parser.add_argument("--matches", metavar="NAME", default=MATCHES, help="as in the setting (default: matches)")
    for topic in NAMED:
        parser.add_argument(
            f"--{topic}-topic", metavar="NAME", help=f"full name of the topic {topic} (default: PREFIX.{topic})"
        )
    parser.add_argument("--bootstrap-server", default="HOST:PORT")
    parser.add_argument("--user", action="append", metavar="ROLE=PRINCIPAL", help="default: each ROLE=User:ROLE")
    parser.add_argument("--table", action="store_true", help="print the grants as a table in Markdown")
    options = parser.parse_args(arguments)
    users = [one.partition("=")[::2] for one in options.user or [f"{role}=User:{role}" for role in GRANTS]]
    if unknown := sorted({role for role, _ in users} - GRANTS.keys()):
        say_on_stderr(f"there is no role {unknown[0]!r}: use {', '.join(GRANTS)}", "acls")
        return 2
    if options.table:
        _print([table()])
        return 0
    given = {name: getattr(options, name) for name in ("prefix", "publish_to", "matches", *map(setting_of, NAMED))}
    try:
        names = LogOptions(**given)
    except SettingsError as error:
        say_on_stderr(str(error), "acls")
        return 2
    _print(line for role, principal in users for line in commands(role, names, principal, options.bootstrap_server))
    return 0


def _print(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
