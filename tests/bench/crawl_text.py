"""Articles made of words by a seeded generator: no two alike, and the same in every run."""

from __future__ import annotations

import random


def _words(text: str) -> list[str]:
    return text.split()


PLACES = _words(
    """
    harbour mill station market bridge orchard quarry library ferry tower canal valley chapel dairy depot
    garden theatre lighthouse foundry nursery reservoir brewery observatory museum hospital school workshop
    tannery cemetery racecourse aqueduct signalbox bakery pier forest hillside courthouse laundry greenhouse
    boatyard
    """
)
PEOPLE = _words(
    """
    mayor ferryman teacher surveyor carpenter nurse botanist conductor librarian mason pilot gardener clerk
    plumber archivist welder shepherd engineer baker violinist diver printer tailor geologist porter beekeeper
    notary astronomer blacksmith fisherman glazier historian juggler locksmith midwife organist potter roofer
    sculptor
    """
)
VERBS = _words(
    """
    repaired opened measured painted closed inherited surveyed defended photographed rebuilt cleaned described
    auctioned borrowed flooded renamed mapped insured lit moved counted drained fenced guarded hired inspected
    leased mended numbered occupied paved questioned restored searched tested upgraded ventilated weighed
    """
)
THINGS = _words(
    """
    timetable roof archive bell fountain ledger staircase turbine orchard hedge portrait kettle anchor tunnel
    window engine compass cellar wagon telescope chimney piano clock lantern barrel harness furnace mosaic
    beacon loom printing-press weathervane sundial millstone carousel barometer gramophone elevator drawbridge
    windlass
    """
)
MANNERS = _words(
    """
    quietly twice overnight reluctantly together cheaply first slowly finally alone carefully again openly
    badly early late gladly formally secretly briefly entirely jointly yearly calmly loudly patiently
    """
)
COLOURS = _words(
    """
    green rusty narrow silver wooden forgotten crowded hollow painted foreign copper frozen modest ancient
    borrowed crooked dusty elegant famous gilded humble iron jagged lonely marble nameless oval plain quiet
    round
    """
)
SHAPES = (
    "The {person} {verb} the {colour} {thing} of the {place} {manner}, and {number} people came to look.",
    "In {year} the {place} was {colour}; since then its {thing} has been {verb} by every {person}.",
    "Nobody at the {place} knew why a {person} had {verb} the {thing} {manner} before the {number}th of the month.",
    "A {colour} {thing} was found behind the {place}, where the {person} had {verb} it in {year}.",
    "Between the {place} and the {thing} the {person} {manner} {verb} {number} metres of {colour} rope.",
    "For {number} days the {person} has {verb} what the {place} calls its {colour} {thing}.",
)
MONTHS = _words(
    """
    January February March April May June July August September October November December
    """
)


def article(number: int) -> tuple[str, list[str]]:
    """Title and paragraphs of one article; no two have a sentence in common but by chance."""
    rng = random.Random(f"article {number}")
    title = f"The {rng.choice(COLOURS)} {rng.choice(THINGS)} of the {rng.choice(PLACES)} no. {number}"
    return title, [" ".join(_sentence(rng) for _ in range(rng.randint(3, 5))) for _ in range(4)]


def _sentence(rng: random.Random) -> str:
    return rng.choice(SHAPES).format(
        person=rng.choice(PEOPLE),
        verb=rng.choice(VERBS),
        thing=rng.choice(THINGS),
        place=rng.choice(PLACES),
        manner=rng.choice(MANNERS),
        colour=rng.choice(COLOURS),
        number=rng.randint(2, 990),
        year=rng.randint(1850, 2020),
    )
