"""`simstream replay`: judge the log again under another policy, and compare the verdicts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from simstream.amounts import say_count, say_pages
from simstream.cli.options import (
    COUNT,
    judging_options,
    log_options,
    make_fingerprinter,
    open_log,
    policy_of,
    settle,
)
from simstream.cli.output import print_json
from simstream.cli.progress import counting, say
from simstream.cli.signals import stop_on_signals
from simstream.errors import UsageError
from simstream.terminal import printable

if TYPE_CHECKING:
    from simstream.settings import Settings
    from simstream.tools.replay.compare import ComparedVerdict, ReplayComparison

MAX_EXAMPLES = 3
POLICY = ("recipe", "distance", "similarity", "window", "link", "config")
"""Flags that `serve` must repeat: without them it would judge under another policy."""


@click.command("replay")
@click.option("--to", required=True, metavar="PREFIX", help="First part of the new topics' names.")
@click.option(
    "--compare", is_flag=True, help="Only compare the new verdicts with the published ones; judge nothing."
)
@click.option(
    "--examples",
    type=COUNT,
    default=MAX_EXAMPLES,
    show_default=True,
    metavar="N",
    help="Show N pages of each kind of difference.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as one JSON object.")
@click.option("--state", metavar="DIR", help="Keep the new judge's state in DIR, not in the old judge's folder.")
@log_options
@judging_options
def command(
    to: str, compare: bool, examples: int, as_json: bool, state: str | None, config: str | None, **flags: Any
) -> int:
    """Judge the log again, up to its end, under another policy of its recipe id. Fetches no page, copies no log.

    Publishes to PREFIX.verdicts, in the log's order and with its ordinals. Does not disturb the service. After a
    kill, run it again: it goes on, and each verdict is published once. Has an index of its own, also if the service
    has matchers. To go on live, run the command that it prints at its end.
    """
    from simstream.log import judged_prefix

    old = settle(config, **flags)
    if to == judged_prefix(old):
        raise UsageError(f"verdicts are already published under the prefix {to}", "give another prefix with --to")
    new = settle(config, **flags | {"publish_to": to, "verdicts_topic": None})
    # `state` is never the setting: that folder is the old judge's. No matchers answer for the new prefix.
    new = replace(new, state=state, shards=0)
    if compare:
        _compare(old, new, examples, as_json)
        return 0
    return _replay(
        old, new, {name: value for name in POLICY if (value := {**flags, "config": config}.get(name)) is not None}
    )


def _replay(old: Settings, settings: Settings, policy_flags: Mapping[str, object]) -> int:
    from simstream.compiling import announced
    from simstream.judge.warming import warm_judge
    from simstream.log import options_of
    from simstream.log.command_hints import where
    from simstream.log.options import FINGERPRINTS
    from simstream.roles.context import RoleContext
    from simstream.tools.replay.replay import missing_topics, replay

    context = RoleContext(settings)
    with make_fingerprinter(settings, say, workers=0) as fingerprinter:
        policy = policy_of(settings, fingerprinter.recipe, fingerprinter.recipe_id)
    with open_log(settings) as log, open_log(old) as old_log:
        for report in missing_topics(log, old_log, policy.recipe_id):
            say(f"created {report.name}")
        frames = log.end_offsets(FINGERPRINTS)[0]
    with announced(say, "the judge"):
        warm_judge(policy)
    stop_on_signals(context.stop)  # until here Ctrl-C ends the command, also while it waits or compiles
    with open_log(settings, patience=settings.give_up_s) as log, counting("judging frames") as tick:
        done = replay(log, policy, context, frames, tick)
    click.echo(
        f"{say_count(done.ordinal, 'verdict')} in {done.topic}, policy {policy.id}, up to frame {done.frame}"
    )
    if done.frame < done.frames:
        left = say_count(done.frames - done.frame, "frame")
        say(f"stopped before the end, {left} to go: run it again to continue")
        return 130
    own = " --shards 0" + (f" --state {shlex.quote(settings.state)}" if settings.state else "")
    flags = where(settings.log, options_of(settings, settings.give_up_s))
    flags += "".join(f" --{name} {shlex.quote(str(value))}" for name, value in policy_flags.items())
    beside = "beside another service with an --http-port of its own"
    say(f"to continue live under this policy, {beside}: simstream serve --roles judge {flags}{own}")
    return 0


def _compare(old: Settings, new: Settings, examples: int, as_json: bool) -> None:
    from simstream.tools.replay.compare import compare

    with open_log(old) as one, open_log(new) as other, counting("reading verdicts") as tick:
        comparison = compare(one, other, examples, tick)
    if as_json:
        print_json(comparison)
    else:
        _print(comparison)


def _print(comparison: ReplayComparison) -> None:
    c = comparison
    click.echo(f"old  {c.old}, policy {c.old_policy}")
    click.echo(f"new  {c.new}, policy {c.new_policy}")
    share = f" ({100 * c.same / c.compared:.2f} %)" if c.compared else ""
    compared = say_pages(c.compared, "has", "have")
    click.echo(f"{compared} a verdict under both policies; of these, {c.same:,}{share} the same verdict")
    for number, name in ((c.only_old, c.old), (c.only_new, c.new)):
        if number:
            click.echo(f"{say_pages(number, 'has', 'have')} a verdict only in {name}")
    click.echo(f"\n{'old':<14}  {'new':<14}  {'pages':>12}  {'share':>8}")
    for pair in c.pairs:
        notes = [
            f"{number:,} {what}"
            for number, what in ((pair.other_page, "of another page"), (pair.other_cluster, "in another cluster"))
            if number
        ]
        end = f"  ({', '.join(notes)})" if notes else ""
        click.echo(f"{pair.old:<14}  {pair.new:<14}  {pair.pages:>12,}  {100 * pair.share:>6.2f} %{end}")
        for example in pair.examples:
            click.echo(
                f"    {example.ordinal:>10}  {printable(example.id)}: {_said(example.old)} | {_said(example.new)}"
            )


def _said(verdict: ComparedVerdict) -> str:
    if verdict.near_duplicate_of is None:
        text = verdict.verdict
    else:
        alike = "" if verdict.similarity is None else f" {verdict.similarity:.4f}"
        text = f"{verdict.verdict}{alike} of {printable(verdict.near_duplicate_of)}"
    return f"{text}, cluster {verdict.cluster_id}" if verdict.cluster_id is not None else text
