"""Runs of the matrix: what they measure, and how one goes on where another ended."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from staleloc.sim.cli import matrix as cli_matrix
from staleloc.sim.matrix import command, file, measure
from staleloc.sim.matrix.measure import drawn
from staleloc.sim.matrix.measurements import Hunt, HuntBudget, HuntKey, Matrix, Replayed
from staleloc.sim.matrix.record import scope_of
from staleloc.sim.run.player import Player, WorkerLost
from staleloc.sim.run.progress import Progress
from staleloc.sim.tapes.scenarios import Scenario, scenarios
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.builtin import BuiltinEngine

ALL = {scenario.name: scenario for scenario in scenarios()}

PARTIAL = ALL["pr27779-partial-page-eviction"]

SPOILT = """
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin
from staleloc.sim.targets import registry
registry.open_target = lambda spec, mutant: load_builtin(MUTANTS["free-swa-clears-given-locs"])
"""
"""Makes the builtin target one that has the bug of PR 27779."""


class Hunting:
    """Sessions on the builtin target, with hunts that play nothing.

    Attributes:
        done: the hunts that were asked for.
        known: what their finds may look like.
        fails: the seed of a hunt in which somebody presses Ctrl-C.
    """

    def __init__(self) -> None:
        self.done: list[HuntKey] = []
        self.known: list[list[Scenario]] = []
        self.fails: int | None = None

    def hunt(self, key: HuntKey, budget: HuntBudget, known: Any, wanted: tuple[str, ...], over: Any) -> Hunt:
        if key.seed == self.fails:
            raise KeyboardInterrupt
        self.done.append(key)
        self.known.append(list(known))
        words = [it for it in known if it.name in wanted]
        return Hunt(wanted, drawn(key.scope.of(BuiltinEngine.profiles), key.seed, words), budget.tapes or 0, 0.0, {})


@pytest.fixture
def hunting(monkeypatch: pytest.MonkeyPatch) -> Hunting:
    fake = Hunting()
    monkeypatch.setattr(measure, "hunt", fake.hunt)
    return fake


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tapes diverge wherever they are replayed."""
    seen = {PARTIAL.name: Replayed("diverges")}
    monkeypatch.setattr(measure, "replay_all", lambda player, known: dict(seen))


def session_of(matrix: Matrix, save: Callable[[Matrix], None] = lambda matrix: None) -> measure.Session:
    return measure.Session(matrix, [PARTIAL], save, Progress())


def empty(tapes: int = 40, seeds: tuple[int, ...] = (0, 1)) -> Matrix:
    return Matrix(seeds, HuntBudget(tapes=tapes), 2, "0.1.0")


def test_a_hunt_ends_when_all_that_diverges_was_seen(hostile: Callable[[str], Path]) -> None:
    """A clean target is played to the end of the budget. On one worker and on two the same bytes come out, but for the
    seconds."""
    clean = empty(tapes=8, seeds=(0,))
    session = session_of(clean)
    session.replays(["builtin"])
    session.hunts(1)
    assert [(it.tapes, it.found, it.others) for it in clean.hunts.values()] == [(8, {}, ())]
    hostile(SPOILT)
    matrix, texts = empty(), []
    session = session_of(matrix)
    session.replays(["builtin"])
    assert matrix.replays["builtin"][PARTIAL.name].verdict == "diverges"
    for workers in (1, 2):
        matrix.hunts.clear()
        session.hunts(workers)
        texts.append(re.sub(r'"seconds": [\d.]+', "", json.dumps(file.to_json(matrix))))
    assert texts[0] == texts[1]
    assert len(matrix.hunts) == 2
    for done in matrix.hunts.values():
        assert done.found[PARTIAL.name].tape == done.tapes - 1 < 39


@pytest.mark.usefixtures("diverging")
def test_a_run_does_only_what_is_missing(hunting: Hunting) -> None:
    """A hunt is done again when the generator draws other tapes, other scenarios diverge or are known by other words,
    or it ended early."""
    matrix = empty(tapes=2, seeds=(0, 1, 2, 3))
    saved: list[int] = []
    session = session_of(matrix, lambda matrix: saved.append(len(matrix.hunts)))
    session.replays(["builtin"])
    session.hunts(1)
    assert saved == [0, 1, 2, 3, 4]
    keys = list(matrix.hunts)
    matrix.hunts[keys[0]] = replace(matrix.hunts[keys[0]], drawn="other")
    matrix.hunts[keys[1]] = replace(matrix.hunts[keys[1]], wanted=("other",))
    matrix.hunts[keys[2]] = replace(matrix.hunts[keys[2]], note="it hung")
    hunting.done.clear()
    session.hunts(1)
    assert hunting.done == keys[:3]
    hunting.done.clear()
    session.known = [replace(PARTIAL, shows=("something",))]
    session.hunts(1)
    assert hunting.done == keys


def test_a_place_where_no_tape_diverges_is_hunted_once(hunting: Hunting) -> None:
    """With the first seed, to see whether there is something new; and not again."""
    matrix = empty(tapes=2, seeds=(3, 4))
    session = session_of(matrix)
    session.replays(["builtin"])
    for _ in range(2):
        session.hunts(1)
    assert hunting.done == [HuntKey("builtin", Scope(), 3)]


def test_places_where_no_tape_diverges_are_hunted_first_or_alone(hunting: Hunting) -> None:
    """What is found there would be new. A find may look like whatever diverges on the release at the same level."""
    engine, spec = ALL["pr36848-ack-takes-another-lock"], ALL["pr34924-window-never-evicted"]
    matrix = empty(tapes=2)
    session = measure.Session(matrix, [PARTIAL, engine, spec], lambda matrix: None, Progress())
    session.replays(["builtin"])
    matrix.replays["builtin"][engine.name] = matrix.replays["builtin"][PARTIAL.name] = Replayed("diverges")
    quiet = HuntKey("builtin", scope_of(spec.tape), 0)
    session.hunts(1, quiet_only=True)
    assert hunting.done == [quiet]
    assert hunting.known == [[spec, engine]]
    matrix.hunts.clear()
    session.hunts(1)
    assert hunting.done[1:] == [
        quiet,
        *(HuntKey("builtin", scope, seed) for scope in (Scope(), scope_of(engine.tape)) for seed in (0, 1)),
    ]
    assert hunting.known[2:] == [[PARTIAL]] * 2 + [[engine]] * 2, "others only where they diverge"


@pytest.mark.usefixtures("diverging")
def test_an_interrupted_run_keeps_what_it_has(hunting: Hunting) -> None:
    """The next one goes on from there."""
    matrix = empty(tapes=2, seeds=(0, 1, 2))
    session = session_of(matrix)
    session.replays(["builtin"])
    hunting.fails = 1
    with pytest.raises(KeyboardInterrupt):
        session.hunts(1)
    hunting.fails = None
    assert [key.seed for key in matrix.hunts] == [0]
    hunting.done.clear()
    session.hunts(1)
    assert [key.seed for key in hunting.done] == [1, 2]


@pytest.mark.usefixtures("hunting")
def test_a_release_that_can_not_be_had_is_told() -> None:
    """The others are measured all the same."""
    matrix = empty(tapes=1, seeds=(0,))
    session = session_of(matrix)
    session.replays(["builtin", "builtin:nonsense"])
    session.hunts(1)
    assert matrix.releases == ["builtin"]
    assert matrix.absent["builtin:nonsense"].startswith("builtin has no policy 'nonsense'")


def test_a_planted_bug_is_found_where_no_tape_diverges(
    hostile: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the one hunt of the quiet places, and the command ends with 1: nobody knows it."""
    monkeypatch.setattr(measure, "Player", lambda target, sure=True: Player("builtin", sure=sure))
    monkeypatch.setattr(measure, "release_of", lambda spec: None)
    monkeypatch.setattr(command, "scenarios", lambda: (ALL["pr24036-cpu-copy-without-mask"],))
    words = ["--targets", "0.5.13", "--tapes", "40", "--blind", "quiet"]
    for code, says in enumerate((" silent.", " 1 new.")):
        done = CliRunner().invoke(cli_matrix.matrix, words, standalone_mode=False)
        assert done.return_value == code
        assert f"(1 hunt of one seed and 40 tapes each): 40 tapes,{says}" in done.output
        hostile(SPOILT)
    assert "NEW: sglang==0.5.13, the allocator level, seed 0, tape " in done.output


def test_a_run_goes_on_after_a_scenario_was_edited(
    hunting: Hunting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Hunts for it are done anew, as what they found may not look like it any more; the others stay as they are."""
    path, engine = tmp_path / "matrix.json", ALL["pr36848-ack-takes-another-lock"]
    seen = {PARTIAL.name: Replayed("diverges"), engine.name: Replayed("silent")}
    monkeypatch.setattr(measure, "replay_all", lambda player, known: dict(seen))
    asked = command.Asked(("builtin",), (0, 1), HuntBudget(tapes=2))
    for edited, expected in ((PARTIAL, 3), (PARTIAL, 0), (replace(PARTIAL, shows=("something",)), 2)):
        monkeypatch.setattr(command, "scenarios", lambda first=edited: (first, engine))
        hunting.done.clear()
        before = path.read_text() if path.exists() else None
        command.run(asked, command.MatrixOutputs(path, None))
        assert len(hunting.done) == expected
    assert {key.scope for key in hunting.done} == {Scope()}
    assert before is not None
    kept, now = (
        [it for it in json.loads(text)["hunts"] if it["level"] == "engine"] for text in (before, path.read_text())
    )
    assert kept == now
    assert len(now) == 1


def test_a_replay_whose_worker_is_killed_is_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing of the release: the release is left out of the table, with the reason."""

    def killed(player: Player, tape: object) -> None:
        raise WorkerLost("the worker was killed by SIGKILL: out of memory?")

    monkeypatch.setattr(Player, "play", killed)
    matrix = Matrix((0,), HuntBudget(tapes=1), 1, "0")
    measure.Session(matrix, [PARTIAL], lambda matrix: None, Progress()).replays(("builtin",))
    assert matrix.absent == {"builtin": "the worker was killed by SIGKILL: out of memory?"}
    assert (matrix.releases, matrix.replays) == ([], {})
