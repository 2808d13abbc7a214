"""What the matrix says to people: on a terminal, as Markdown and as a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from staleloc.sim.findings.files import KeepError
from staleloc.sim.matrix import pages
from staleloc.sim.matrix.command import Asked, MatrixOutputs, run
from staleloc.sim.matrix.measurements import Hunt, HuntBudget, HuntKey, Matrix, Other, Replayed
from staleloc.sim.matrix.tables import empty, footnotes, label, ordered, otherwise, ranges, untold
from staleloc.sim.tapes.scenarios import scenarios
from staleloc.sim.targets.base import Scope

ALL = {scenario.name: scenario for scenario in scenarios()}

PARTIAL = ALL["pr27779-partial-page-eviction"]

OLD, NEW = "sglang==0.5.13", "sglang==0.5.14"

RELEASES = [f"sglang=={version}" for version in ("0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.14")]


def matrix_of(replays: dict[str, dict[str, Replayed]]) -> Matrix:
    return Matrix((0, 1, 2), HuntBudget(tapes=9), 2, "0.1.0", list(replays), replays)


def replayed(*seen: Replayed) -> Matrix:
    """One scenario on as many releases."""
    return matrix_of({target: {PARTIAL.name: one} for target, one in zip(RELEASES, seen, strict=False)})


def test_every_scenario_has_a_row_and_every_release_a_column(small: Matrix) -> None:
    """In the terminal's table, in Markdown and in HTML; where nothing was measured there is a question mark."""
    lines = pages.to_text(small, scenarios()).splitlines()
    assert lines[0].split() == ["0.5.13", "0.5.14"]
    assert [line.split(":")[1].split("  ")[0].strip() for line in lines[1 : len(ALL) + 1]] == [
        label(it).split(": ")[1] for it in ordered(scenarios())
    ]
    rows = pages.compact(small, scenarios()).splitlines()
    assert len(rows) == len(ALL) + 2
    assert {row.count("|") for row in rows} == {4}
    assert sum(row.endswith("| ? | ? |") for row in rows) == len(ALL) - 1
    page = pages.to_html(small, scenarios())
    assert page.count('<td class="cell') == 2 * len(ALL)


def test_what_a_release_says_can_not_spoil_a_page(small: Matrix) -> None:
    """Neither the HTML nor the columns of a Markdown table."""
    page = pages.to_html(small, [PARTIAL])
    assert "&lt;full loc&gt;" in page
    assert "<full loc>" not in page
    assert pages.to_markdown(small, [replace(PARTIAL, mechanism="a | b")]).count("a / b") == 1


def test_footnotes_name_each_cell_that_differs() -> None:
    """And each release that could not be had."""
    matrix = matrix_of({NEW: {PARTIAL.name: Replayed("diverges")}})
    matrix.absent["sglang==9.9"] = "no such release"
    assert footnotes(matrix, [PARTIAL]) == [
        "sglang==9.9: no such release",
        f"NEW: {PARTIAL.name} on {NEW} diverges, although the record says that it is fixed since 0.5.14",
    ]


def test_the_table_is_written_between_marks(small: Matrix, tmp_path: Path) -> None:
    """What is around it stays; a file without marks becomes the whole page."""
    readme, page = tmp_path / "README.md", tmp_path / "MATRIX.md"
    first, last = pages.MARKS
    readme.write_text(f"# Ours\n{first}\nold\n{last}\nmore\n")
    for _ in range(2):
        readme.write_text(pages.to_markdown_in(readme, small, [PARTIAL]))
    assert readme.read_text() == f"# Ours\n{first}\n{pages.readme(small, [PARTIAL])}{last}\nmore\n"
    page.write_text(pages.to_markdown_in(page, small, [PARTIAL]))
    assert page.read_text() == pages.to_markdown(small, [PARTIAL])
    readme.write_text(f"{first}\nold\n")
    with pytest.raises(KeepError, match="without"):
        readme.write_text(pages.to_markdown_in(readme, small, [PARTIAL]))


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("my notes\n", "was not written by staleloc"),
        (f"{pages.MARKS[1]}\n", "was not written by staleloc"),
        (f"{pages.MARKS[0]}\n", "without"),
        (f"{pages.MARKS[1]}\n{pages.MARKS[0]}\n", "without"),
    ],
)
def test_a_file_that_is_somebodys_is_not_written_over(tmp_path: Path, before: str, why: str) -> None:
    """It is refused before anything is measured."""
    path = tmp_path / "notes.md"
    path.write_text(before)
    with pytest.raises(KeepError, match=why):
        run(Asked((), None, None, measure=False), MatrixOutputs(None, None, (path,)))
    assert path.read_text() == before


def test_a_row_stands_behind_the_tapes_that_its_text_refers_to() -> None:
    """Or one would read of the second what the first is about; others keep their order, and none is lost."""
    first, second, third = (replace(PARTIAL, name=name, mechanism="x") for name in ("a", "a-leak", "b"))
    assert ordered([first, second, third]) == [first, second, third]
    refers = replace(first, mechanism="as b, and worse")
    assert ordered([refers, second, third]) == [third, refers, second]
    assert ordered([replace(first, mechanism="as a-leak"), replace(second, mechanism="as a"), third])[2] == third
    assert ordered([replace(first, mechanism="not a-leak-two"), second]) == [
        replace(first, mechanism="not a-leak-two"), second
    ]  # fmt: skip
    names = [it.name for it in ordered(scenarios())]
    assert sorted(names) == sorted(ALL)
    assert names.index("pr36081-deferred-free-swa") < names.index("pr36081-deferred-free-swa-leak")


def test_a_bug_that_nobody_reported_is_marked() -> None:
    """Whether it has the number of the PR that made it possible or none; in each output."""
    reported, since, none = PARTIAL, ALL["pr27770-lock-beyond-the-prefix"], ALL["unsent-page-before-the-window"]
    assert label(reported) == "27779: partial page eviction"
    assert label(since) == "since 27770, unreported: lock beyond the prefix"
    assert label(none) == "unreported: unsent page before the window"
    assert label(replace(none, said=reported.said)) == "unsent page before the window"
    known, matrix = [reported, since, none], matrix_of({OLD: {}})
    assert "since 27770, unreported: lock" in pages.to_text(matrix, known)
    assert "since [27770](https://github.com/sgl-project/sglang/pull/27770), unreported: lock" in pages.readme(
        matrix, known
    )
    page = pages.to_html(matrix, known)
    assert '<th>since <a href="https://github.com/sgl-project/sglang/pull/27770">27770</a>, unreported: lock' in page
    assert page.count("<th>unreported: unsent page") == 1


def test_releases_in_a_row_are_said_by_the_first_and_the_last() -> None:
    """From three on; what is between two of them and not among them parts them."""
    assert ranges(set(RELEASES), RELEASES) == "0.5.11 to 0.5.14"
    assert ranges(set(RELEASES[:2]), RELEASES) == "0.5.11, 0.5.12"
    assert ranges({*RELEASES[:3], RELEASES[4]}, RELEASES) == "0.5.11 to 0.5.12.post1, 0.5.14"
    assert ranges(set(), RELEASES) == ""


def test_what_a_tape_shows_where_it_diverges_as_something_else_is_told() -> None:
    """With the scenario's own reason, if it has one, and once for releases that show the same."""
    known = replace(PARTIAL, remark={"0.5.11": "another bug is first"})
    matrix = replayed(*[Replayed("other", "race: x")] * 3, Replayed("diverges", "y"))
    head = ("row", "releases", "what the tape shows", "why")
    assert otherwise(matrix, [known]) == [
        head,
        (label(known), "0.5.11", "race: x", "another bug is first"),
        (label(known), "0.5.12, 0.5.12.post1", "race: x", "not known"),
    ]
    assert otherwise(replayed(Replayed("silent")), [known]) == []
    for page in (pages.to_markdown(matrix, [known]), pages.to_html(matrix, [known])):
        assert page.count("another bug is first") == 1 + page.count(
            "(race: x), although the record says that it has the bug: another bug"
        )


def test_an_empty_cell_has_its_reason() -> None:
    """The release's name, the number of the event and advice make no difference; one row a scenario."""
    reasons = [
        "this is a tape with disagg, and sglang==0.5.11 cannot be driven so",
        "this is a tape with disagg, and sglang==0.5.12 cannot be driven so",
        "event 4 (backup) cannot be played: this release has none",
        "it has a host tier, and this target has none; it wants pool hybrid with policy native, and this target has x",
        "it wants pool dsv4 with policy native, and this target has hybrid; play it on a release that has it",
    ]
    matrix = replayed(*(Replayed("unplayable", what) for what in reasons))
    told = (
        "0.5.11, 0.5.12: this is a tape with disagg, and this release cannot be driven so. "
        "0.5.12.post1: backup: this release has none. "
        "0.5.13: it has a host tier, and this release has none. "
        "0.5.14: it wants pool dsv4 with policy native, and this release has hybrid"
    )
    assert empty(matrix, [PARTIAL])[1:] == [(label(PARTIAL), told)]
    assert empty(replayed(Replayed("silent")), [PARTIAL]) == []
    for page in (pages.to_markdown(matrix, [PARTIAL]), pages.to_html(matrix, [PARTIAL])):
        assert page.count(told) == 1


def test_what_is_not_told_apart_is_on_each_page() -> None:
    """One line a level and kind, with where to read on."""
    matrix = replayed(*[Replayed("diverges", "x")] * 4)
    other = Other("leak", "conservation", "page # is lost", 5)
    for target in RELEASES[:3]:
        matrix.hunts[HuntKey(target, Scope(), 0)] = Hunt((PARTIAL.name,), "0", 9, 1.0, {}, (other,))
    line = "the allocator level, 0.5.11 to 0.5.12.post1: leak: page # is lost"
    assert untold(matrix) == [line]
    for page in (pages.to_markdown(matrix, [PARTIAL]), pages.to_html(matrix, [PARTIAL])):
        assert page.count(line) == 1
        assert page.count("FINDINGS.md#other-forms-of-known-bugs") == 1


def test_misses_and_the_numbers_of_tapes_are_on_each_output(small: Matrix) -> None:
    """And the legend says what they are, where there are any."""
    assert "3/5" not in pages.to_text(small, [PARTIAL])
    key = HuntKey(OLD, Scope(), 1)
    small.hunts[key] = Hunt((PARTIAL.name,), "0", 9, 1.0, {})
    terminal = pages.to_text(small, [PARTIAL])
    assert "4 s 2/3" in terminal
    assert "\n3/5 " in terminal
    assert "\n3 s " in terminal
    page = pages.to_markdown(small, [PARTIAL])
    assert "| 4 s 2/3 | . |" in page
    assert "| 8 2/3 | . |" in page
    assert '>4 s 2/3<div class="small">tape 8</div>' in pages.to_html(small, [PARTIAL])
