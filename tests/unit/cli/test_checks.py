"""``--checks``: off unless asked for, kept in the tape that is saved, and an error where it cannot be."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import warm

from staleloc.sim.tapes.codec import dumps, load

Run = Callable[..., subprocess.CompletedProcess[str]]

MUTANT = "finish-inserts-nothing"
TAPES = Path(__file__).parents[1] / "parts" / "engine" / "tapes"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command in an empty folder."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return warm.run(["-m", "staleloc.sim", *words], tmp_path)

    return call


def test_a_saved_tape_is_replayed_with_the_checks_that_found_it(run: Run, tmp_path: Path) -> None:
    """The mutant brings its check along; the tape says so, and no option is needed."""
    found = run("fuzz", "--mutant", MUTANT, "--tapes", "4", "--first", "--workers", "1")
    assert (found.returncode, "--checks hits" in found.stdout) == (1, True)
    (saved,) = (tmp_path / "staleloc-tapes").iterdir()
    assert load(saved).config.checks == ("hits",)
    replayed = run("replay", str(saved))
    assert (replayed.returncode, replayed.stdout.split()[0]) == (1, "lost-hit")


def test_a_tape_without_them_is_replayed_with_those_of_the_option(run: Run, tmp_path: Path) -> None:
    """And the line that shows the divergence again has the option."""
    tape = load(TAPES / "hits-lost-hit-insert-drops-last-page.json")
    plain = tmp_path / "plain.json"
    plain.write_text(dumps(replace(tape, config=replace(tape.config, checks=()))))
    assert run("replay", str(plain), "--mutant", "insert-drops-last-page").returncode == 0
    shown = run("replay", str(plain), "--mutant", "insert-drops-last-page", "--checks", "hits")
    assert (shown.returncode, "--checks hits" in shown.stdout) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fuzz", "--checks", "misses"), "'misses' is not one of hits"),
        (("fuzz", "--checks", "hits", "--level", "allocator"), "leave out --level allocator"),
        (("replay", "pr25889-mapping-replaced", "--checks", "hits"), "leave out --checks"),
    ],
)
def test_what_cannot_be_checked_is_said_in_one_line(run: Run, words: tuple[str, ...], said: str) -> None:
    """With exit code 2."""
    done = run(*words)
    assert (done.returncode, done.stderr.count("\n"), said in done.stderr) == (2, 1, True)
