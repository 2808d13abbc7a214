"""What counts as a finding when workers are stopped, starved, killed or slow, and when a cache cannot be built.

Workers are fakes in this process that follow a plan for each tape.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import warm

from staleloc.models.config import LEVELS, Config
from staleloc.sim.cli.text import say, warn
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.core.text import message, printable
from staleloc.sim.findings import search
from staleloc.sim.findings.finding import Origin
from staleloc.sim.parts.allocator.events import Alloc, Clear
from staleloc.sim.parts.check import Unbuilt
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.run import player as player_module
from staleloc.sim.run.campaign import Budget, Campaign, Results
from staleloc.sim.run.messages import divergence_to_json
from staleloc.sim.run.player import Player, WorkerLost
from staleloc.sim.run.process import WorkerDied, WorkerHung, WorkerSilent
from staleloc.sim.targets.base import Scope, TargetError
from staleloc.sim.targets.builtin import BuiltinEngine

PLANS = 60
"""Campaigns with generated faults."""

TAPES = 24

HANG = Divergence("hang", "hang", 0, "alloc does not come back, and uses the processor all the time")

FAULTS: dict[str, Callable[[], Exception]] = {
    "hung": lambda: WorkerHung("the target gives no answer, and uses the processor all the time"),
    "silent": lambda: WorkerSilent("the target gave no answer for 300 s, and did not use the processor"),
    "killed": lambda: WorkerDied(-9, ""),
    "died": lambda: WorkerDied(-11, ""),
}

Plan = dict[int, list[str]]


class Fake:
    """A worker that plays each tape as the plan says: one word for each time, and then an answer without divergence."""

    def __init__(self, plan: Plan, played: dict[int, int]) -> None:
        self.profiles = list(BuiltinEngine.profiles)
        self.stand_ins: dict[str, list[list[str]]] = {"replaced": [], "given": []}
        self._plan = plan
        self._played = played

    def _answer(self, tape: int) -> dict[str, Any]:
        words = self._plan.get(tape, [])
        time = self._played[tape]
        self._played[tape] += 1
        word = words[time] if time < len(words) else "silence is golden"
        if word in FAULTS:
            raise FAULTS[word]()
        found = divergence_to_json(HANG) if word == "stuck" else None
        common = {"divergence": found, "events": 1, "skipped": 0, "seen": {}, "effect": None, "cpu": 0.0}
        return {"tape": tape, "place": ["hybrid"], **common}

    def run(self, scope: Scope, seed: int, tapes: list[int]) -> Iterator[dict[str, Any]]:
        for tape in tapes:
            yield self._answer(tape)

    def play(self, tape_text: str, rows: int = 0) -> dict[str, Any]:
        return self._answer(0)

    def close(self) -> None:
        pass

    end = close


def run(plan: Plan, workers: int = 1) -> Results:
    """The results of a campaign with such workers."""
    played: dict[int, int] = defaultdict(int)
    start: Any = lambda target, mutant: Fake(plan, played)  # noqa: E731
    return Campaign("builtin", 0, Budget(tapes=TAPES), workers, worker=start).run()


def kinds(results: Results) -> dict[int, str]:
    """Class of what was found, by tape."""
    return {found.index: found.divergence.kind for found in results.found}


@pytest.mark.parametrize("fault", ["hung", "silent", "killed", "died", "stuck"])
def test_what_happens_once_is_no_finding(fault: str) -> None:
    """A fresh worker plays the tape again, and its answer counts."""
    results = run({7: [fault]})
    assert (kinds(results), results.tapes, results.diverged) == ({}, TAPES, 0)
    assert len(results.notes) == (fault != "stuck")


@pytest.mark.parametrize(("fault", "kind"), [("hung", "hang"), ("died", "crash"), ("stuck", "hang")])
def test_what_happens_twice_is_a_finding(fault: str, kind: str) -> None:
    """On the same tape, in two processes."""
    results = run({7: [fault, fault]})
    assert (kinds(results), results.tapes) == ({7: kind}, TAPES)


@pytest.mark.parametrize(("fault", "told"), [("silent", "was it stopped"), ("killed", "out of memory")])
def test_what_is_never_a_finding_ends_the_campaign_when_it_happens_twice(fault: str, told: str) -> None:
    """It is an error, which names the tape."""
    with pytest.raises(TargetError, match=f"twice at tape 7: .*{told}"):
        run({7: [fault, fault]})


@pytest.mark.parametrize("first", range(0, PLANS, 10))
def test_no_mixture_of_single_faults_is_a_finding(first: int) -> None:
    """Each tape may meet each fault once: all tapes are played, on any number of workers."""
    for seed in range(first, first + 10):
        draw = random.Random(seed)
        plan = {
            tape: draw.sample(["hung", "silent", "killed", "died"], draw.randrange(1, 5))
            for tape in draw.sample(range(TAPES), draw.randrange(1, 12))
        }
        results = run(plan, workers=1 + seed % 3)
        assert (results.found, results.tapes, results.events) == ([], TAPES, TAPES)
        assert len(results.notes) == sum(map(len, plan.values()))


def test_a_hang_that_is_shrunk_to_no_hang_is_told_as_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shorter tape hung in the shrinker and does not in a fresh process: the tape that hung twice is the finding."""
    plan = {0: ["hung", "hung"], 1: []}
    found = run(plan).found[0]
    monkeypatch.setattr(search, "Campaign", lambda *_arguments, **_options: _Ready(found))
    players: list[dict[int, list[str]]] = [{0: ["hung"] * 10**4}, {}]
    monkeypatch.setattr(search, "HANG_CANDIDATES", 20)

    def start(*_arguments: object, sure: bool, **_options: object) -> Player:
        plan = players.pop(0)
        played: dict[int, int] = defaultdict(int)
        worker: Any = lambda *_: Fake(plan, played)  # noqa: E731
        return Player("builtin", worker=worker, sure=sure)

    monkeypatch.setattr(search, "Player", start)
    outcome = search.find(Origin("builtin", seed=0), Budget(tapes=1), 1)
    (finding,) = outcome.findings
    assert (finding.tape, finding.divergence, finding.unsteady) == (found.tape, found.divergence, False)
    assert "tape 0 is not shrunk: a shorter one did not hang again" in outcome.results.notes


class _Ready:
    """A campaign that is over."""

    def __init__(self, found: Any) -> None:
        self._results = Results(profiles=list(BuiltinEngine.profiles), found=[found])

    def run(self) -> Results:
        return self._results


TAPE = Tape(Config(policy="memo"), (Alloc(0, 1), Clear()))


@pytest.mark.parametrize(
    ("faults", "kind"),
    [
        (["hung"], None),
        (["hung", "hung"], "hang"),
        (["stuck"], None),
        (["stuck", "stuck"], "hang"),
        (["silent"], None),
        (["silent", "stuck"], "hang"),
        (["died"], "crash"),
    ],
)
def test_a_replay_asks_a_fresh_process_before_it_says_hang(faults: list[str], kind: str | None) -> None:
    """As a campaign does; a crash is told at once."""
    played: dict[int, int] = defaultdict(int)
    worker: Any = lambda *_: Fake({0: faults}, played)  # noqa: E731
    found = player_module.Player("builtin", worker=worker).play(TAPE)
    assert (found and found.kind) == kind


def test_a_replay_without_an_answer_is_an_error() -> None:
    """It is no verdict on the target."""
    played: dict[int, int] = defaultdict(int)
    worker: Any = lambda *_: Fake({0: ["silent", "silent"]}, played)  # noqa: E731
    with pytest.raises(WorkerLost, match="twice: was it stopped"):
        player_module.Player("builtin", worker=worker).play(TAPE)


# Caches that cannot be built


class Rude(BaseException):
    """It cannot even be told."""

    def __str__(self) -> str:
        raise Rude


RAISED: tuple[BaseException, ...] = (
    ValueError("no room"),
    Rude(),
    AssertionError(),
    MemoryError("all"),
    OSError(5, "x"),
)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_an_exception_while_a_cache_is_built_is_the_targets(
    monkeypatch: pytest.MonkeyPatch, level: str, error: BaseException
) -> None:
    """It is a crash before the first event, and says what was raised and where."""
    engine = BuiltinEngine()
    (profile, *_) = Scope(level).of(engine.profiles)

    def build(config: Config) -> None:
        raise error

    monkeypatch.setattr(engine, "build", build)
    tape = Tape(Config(level=level, policy=profile.policies[0]), ())
    with pytest.raises(Unbuilt) as raised:
        play_tape(tape, engine, profile)
    found = raised.value.divergence
    assert (found.kind, found.event) == ("crash", -1)
    assert found.what.startswith(f"building the cache raised {type(error).__name__}")
    assert "in build" in found.sentence


def test_a_target_error_while_a_cache_is_built_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter says so that it cannot drive the target."""
    engine = BuiltinEngine()

    def build(config: Config) -> None:
        raise TargetError("not this one")

    monkeypatch.setattr(engine, "build", build)
    with pytest.raises(TargetError, match="not this one"):
        play_tape(TAPE, engine, engine.profiles[0])


def test_a_copy_whose_cache_cannot_be_built_is_a_finding(tmp_path: Path) -> None:
    """From the command line: it is shrunk to nothing, saved, and told without an escape code."""
    source = Path(__file__).parents[2] / "sim" / "targets" / "builtin"
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in source.glob("*.py"):
        (copy / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    text = (copy / "target.py").read_text(encoding="utf-8")
    assert text.count("    def build(self, config") == 1
    head, _, rest = text.partition("    def build(self, config")
    signature, _, body = rest.partition("\n")
    rude = '        raise ValueError("\\x1b[31mred\\x1b]0;title\\x07")\n'
    (copy / "target.py").write_text(f"{head}    def build(self, config{signature}\n{rude}{body}", encoding="utf-8")
    done = warm.run(
        ["-m", "staleloc.sim", "fuzz", "--target", "builtin@copy", "--tapes", "2", "--workers", "1"], tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert "building the cache raised ValueError: " in done.stdout
    assert not any(ord(it) < 32 and it != "\n" for it in done.stdout + done.stderr)
    (saved,) = (tmp_path / "staleloc-tapes").glob("*.json")
    again = warm.run(["-m", "staleloc.sim", "replay", str(saved), "--target", "builtin@copy"], tmp_path)
    assert again.returncode == 1, again.stderr


# Terminals

TEXTS = 80
"""Generated texts."""


def hostile_text(seed: int) -> str:
    """Letters among characters that a terminal obeys."""
    draw = random.Random(seed)
    codes = [
        "\x1b[2J",
        "\x1b]0;x\x07",
        "\r",
        "\b",
        "\x9b1m",
        "\x00",
        "\u202e",
        "\u2066",
        "\u2028",
        "\ud800",
        "\x7f",
        "\v",
    ]
    return "".join(draw.choice([*codes, "a", "é", "→", " ", "\n", "[b]"]) for _ in range(draw.randrange(1, 40)))


def test_no_control_character_reaches_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed can be encoded, says what was there, and is the same if there was nothing."""
    for seed in range(TEXTS):
        say(hostile_text(seed))
        warn(hostile_text(seed))
    shown = capsys.readouterr()
    assert all(it.isprintable() or it == "\n" for it in shown.out + shown.err)
    (shown.out + shown.err).encode()
    assert shown.err.count("\n") == TEXTS
    assert printable("\x1b[1m\u202eé→\n\tx") == "\\x1b[1m\\u202eé→\n\tx"


def test_our_own_style_is_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The first line of a report is bold; what is in it is not obeyed."""
    monkeypatch.setattr(click.utils, "should_strip_ansi", lambda *_arguments: False)
    say("a\x1b[31mb", bold=True)
    assert capsys.readouterr().out == f"{click.style('a' + chr(92) + 'x1b[31mb', bold=True)}\n"


def test_an_exception_that_cannot_be_told_is_told() -> None:
    """With a type, and within limits."""
    assert message(Rude()) == "its message cannot be had, that raises Rude"
    assert len(message(ValueError("x" * 10**6))) == 2000
