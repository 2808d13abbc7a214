"""The table of a small target: what ran, what cannot be driven, and what nobody knows."""

from __future__ import annotations

import jsonschema
import pytest

from staleloc.sim.coverage.measure import Measured, Played
from staleloc.sim.coverage.record import Record, read_record
from staleloc.sim.coverage.report import Report, coverage_schema
from staleloc.sim.coverage.statements import functions_of
from staleloc.sim.coverage.table import Count, Gap, stale_entries, table_of
from staleloc.sim.targets.base import Scope

SOURCE = """\
def free(pool, locs):
    if pool.is_gpu:
        launch(locs)
        wait()
    elif not locs:
        return
    pool.give(locs)
    pool.sort()

def resize(pool):
    pool.stop()
    pool.start()
"""

FUNCTIONS = {"pool/a.py": functions_of(SOURCE, "pool/a.py")}

GPU = {"place": "pool/*:free", "line": "if pool.is_gpu", "is": "accelerator", "why": "it launches a kernel"}


def report(record: Record, lines: set[int]) -> Report:
    """The report where these lines ran."""
    ran = {"pool/a.py": lines}
    measured = Measured(ran, [Played(Scope("engine", ("spec",)), 8, 2)], scenarios=3)
    table = table_of(FUNCTIONS, ran, record)
    return Report("toy", None, "3.11", 5, measured, table, stale_entries(FUNCTIONS, ran, record))


def test_a_line_that_never_ran_is_reported() -> None:
    """With the reason where the record has one. The percentage is of the drivable lines."""
    it = report(read_record([GPU]), {2, 5, 7, 8})
    free, resize = it.files[0].rows
    assert it.count == Count(lines=9, run=4, not_drivable=2)
    assert it.count.percent == 57.1
    assert it.count.reaches(57.1)
    assert not it.count.reaches(57.2)
    (entry,) = read_record([GPU]).entries
    assert free.gaps == (Gap(3, 4, 2, entry), Gap(6, 6, 1, None))
    assert resize.gaps == (Gap(11, 12, 2, None),)
    assert not it.stale


def test_the_text_names_each_line_that_never_ran() -> None:
    """The table, the ranges of each function, and the command that looks at what diverged."""
    text = report(read_record([GPU]), {2, 5, 7, 8}).text()
    assert "pool/a.py      9    4             2            3  57.1" in text
    assert "  free (line 1): 4 of 7 lines run\n    3–4: not drivable, accelerator: it launches a kernel\n" in text  # noqa: RUF001
    assert "    6: not reached\n  resize (line 10): never run\n    11–12: not reached\n" in text  # noqa: RUF001
    assert "staleloc fuzz --target toy --seed 5 --level engine --features spec --tapes 8" in text


def test_the_json_follows_its_schema() -> None:
    """With and without gaps and stale entries."""
    for lines in (set(), {2, 3, 4, 5, 6, 7, 8, 11, 12}):
        jsonschema.validate(report(read_record([GPU]), lines).to_json(), coverage_schema())


@pytest.mark.parametrize(
    ("line", "held"),
    [
        ("", [2, 3, 4, 5, 6, 7, 8]),
        ("if pool.is_gpu", [3, 4]),
        ("elif not locs", [6]),
        ("launch", [3, 4]),
        ("wait", [4]),
        ("pool.give", [7, 8]),
    ],
)
def test_an_entry_holds_for_a_block(line: str, held: list[int]) -> None:
    """For the block of a compound statement; for any other statement and what follows it in its block."""
    it = report(read_record([{**GPU, "line": line}]), set())
    gaps = [gap for gap in it.files[0].rows[0].gaps if gap.reason is not None]
    assert [n for gap in gaps for n in range(gap.first, gap.last + 1)] == held


def test_an_entry_may_hold_for_the_rest_of_a_block() -> None:
    """Then the header of a compound statement counts, too."""
    it = report(read_record([{**GPU, "line": "elif not locs", "rest": True}]), {2})
    assert it.files[0].rows[0].gaps[1:] == (Gap(5, 6, 2, it.files[0].rows[0].gaps[1].reason), Gap(7, 8, 2, None))
    assert not it.stale


def test_an_entry_that_does_not_hold_is_reported() -> None:
    """It fits no function, or no statement, or a tape ran what it says cannot be driven."""
    wrong = [{**GPU, "place": "pool/a.py:gone"}, {**GPU, "line": "if gone"}, GPU]
    it = report(read_record(wrong), {2, 3})
    assert [flaw for _, flaw in it.stale] == ["fits nothing", "fits nothing", "pool/a.py:3 was run"]
    assert (
        "3 entries of the record do not hold here:\n  pool/*:free (if pool.is_gpu): pool/a.py:3 was run\n" in it.text()
    )


def test_a_record_of_another_release_is_not_listed() -> None:
    """There, most entries may fit nothing: they are counted."""
    wrong = [{**GPU, "place": f"pool/a.py:gone{number}"} for number in range(20)]
    text = report(read_record(wrong), {2}).text()
    assert "20 fit nothing in this release; --json lists them" in text
    assert "gone" not in text


def test_a_record_says_which_sort_a_reason_is() -> None:
    """A slip of the pen there would make a group of its own in the report."""
    with pytest.raises(ValueError, match="'gpu' is not one of accelerator, ranks"):
        read_record([{**GPU, "is": "gpu"}])
