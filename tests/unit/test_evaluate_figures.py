"""How the figures of `evaluate` are drawn: legends that fit, backgrounds, names."""

from __future__ import annotations

import re
from typing import Any

import pytest

from simstream.evaluate.figures import INK, FigureDrawing, _legend, as_svg, plain


@pytest.mark.parametrize(("inches", "columns"), [(4.6, 2), (13.8, 5)])
def test_a_legend_has_as_many_columns_as_fit_beside_one_another(inches: float, columns: int) -> None:
    seen = []

    def paint(figure: Any) -> None:
        names = [f"recall, J of bin {number}" for number in range(5)]
        _legend(figure, [figure.subplots().plot([0, 1])[0]] * 5, names)
        seen.append(figure)

    as_svg("legend", (inches, 3.9), paint)
    [figure] = seen
    [legend] = figure.legends
    places = legend.get_window_extent()
    assert (places.x0 >= 0, places.x1 <= figure.bbox.width) == (True, True)
    assert len({text.get_window_extent().x0 for text in legend.get_texts()}) == columns


def test_a_figure_is_on_white_by_itself_and_on_the_page_in_a_report_which_names_it() -> None:
    svg = as_svg("ground", (4.6, 3.9), lambda figure: figure.text(0.5, 0.5, "a word"))
    white = '<rect width="100%" height="100%" fill="#ffffff"/>'
    assert (svg.count(white), svg.index(white) < svg.index("<g ")) == (1, True)
    inline = FigureDrawing("ground", 'Pairs with J < .5 of "a". The rest.', svg).inline()
    assert inline.startswith('<svg role="img" aria-label="Pairs with J &lt; .5 of &quot;a&quot;" ')
    assert (white in inline, INK in inline, "a word" in inline) == (False, False, True)


def test_figures_of_one_report_have_no_id_in_common() -> None:
    def paint(figure: Any) -> None:
        figure.subplots().plot([0, 1], marker="o")

    inlines = [FigureDrawing(name, "", as_svg(name, (4, 3), paint)).inline() for name in "ab"]
    ids = [set(re.findall(r' id="([^"]*)"', inline)) for inline in inlines]
    assert ids == [set(re.findall(r'(?:href="|url\()#([^")]+)', inline)) for inline in inlines]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01, "0.01"), (0.1234, "0.123"), (999.7, "1,000"), (53_300, "53,300"), (1e6, "1,000,000")],
)
def test_numbers_of_figures_have_no_exponent(value: float, text: str) -> None:
    assert plain(value) == text
