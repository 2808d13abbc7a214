"""Scripts of engine-level tapes: they show the bug of a mutant without staleloc, and nothing in clean code."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import warm

from staleloc.models.config import Config
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.script.script import script
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine import events as ee
from staleloc.sim.parts.engine.by_hand import Engine
from staleloc.sim.parts.engine.checks import check_locks
from staleloc.sim.parts.registry import parts_of
from staleloc.sim.tapes.codec import dumps
from staleloc.sim.targets.base import Scope, TargetError
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

TOKENS = Config(level="engine", policy="uncached", full_size=8, swa_size=8, window=2)
PAGES = replace(TOKENS, page_size=2)
TIERS = replace(TOKENS, host_full_size=16, host_swa_size=16)


def computed(request: int, *tokens: int) -> tuple[Event, ...]:
    """A request arrives, and its whole prompt is computed and inserted."""
    return (ee.Arrive(request, tokens), ee.Admit(request), ee.Prefill(request, len(tokens)), ee.Checkpoint(request))


CASES: dict[str, tuple[str, Config, tuple[Event, ...]]] = {
    "checkpoint-inserts-partial-page": (
        "after step 4, checkpoint(request=0):\n"
        "  expected  Structure: the tree's keys are whole pages, siblings differ, and no node has slots that do not "
        "fit its key.\n"
        "  actual    node 1 has a key of 3 tokens; keys are whole pages of 2\n",
        PAGES,
        computed(0, 1, 1, 1),
    ),
    "request-frees-shared": (
        "after step 5, finish(request=0):\n"
        "  expected  Owners: every slot of every pool is free, a node's, a request's own, or in flight, and only one "
        "of these.\n"
        "  actual    full page 1 is in the free list while node 1 has it\n",
        TOKENS,
        (*computed(0, 1, 1), ee.Finish(0)),
    ),
    "request-leaves-lock": (
        "after step 5, finish(request=0):\n"
        "  expected  Locks: a node is locked once for each running request whose tokens lead through it, and for "
        "queued transfers.\n"
        "  actual    node 1 is locked 1 times and only 0 running requests need it\n",
        TOKENS,
        (*computed(0, 1, 1), ee.Finish(0)),
    ),
    "forward-does-not-wait": (
        "after step 10, prefill(request=1, count=1):\n"
        "  expected  Rows: slots that hold the KV of a prefix, in any tier, hold that KV and no other.\n"
        "  actual    attention of request 1 at layer 0 read nothing, expected the KV of token 0 after [1] at layer 0\n",
        TIERS,
        (
            *computed(0, 1, 1),
            *(ee.Finish(0), ee.TransferDone(9), ee.Evict(8, 8)),
            *computed(1, 1, 1, 1)[:2],
            ee.Prefill(1, 1),
        ),
    ),
    "evict-parent-first": (
        "after step 11, evict(full=1, swa=0):\n  expected  no exception\n  actual    evict raised AssertionError\n",
        TOKENS,
        (*computed(0, 1, 1), ee.Finish(0), *computed(1, 1, 1, 2), ee.Finish(1), ee.Evict(1, 0)),
    ),
}
"""Mutant -> how its script's answer begins, and a cache and events that show the mutant."""

EVERY_EVENT = (
    *computed(0, 1, 1, 2),
    *(ee.Decode((0,), 1), ee.EvictWindow(0), ee.Finish(0), ee.Evict(1, 1), ee.TransferDone(1)),
    *computed(1, 1, 1),
    *(ee.Abort(1), *computed(2, 1, 1), ee.Results((2,), (2,), ()), ee.TransferDone(9), ee.Flush()),
)

Run = Callable[[str], tuple[int, str, str]]


def finding(mutant: str) -> Finding:
    _, config, events = CASES[mutant]
    divergence = drive_engine(Tape(config, events), load_builtin(MUTANTS[mutant])).divergence
    assert divergence is not None
    return Finding(
        Origin("builtin", mutant=mutant, seed=0, index=0, scope=Scope("engine")), Tape(config, events), divergence
    )


def silent(config: Config, events: tuple[Event, ...], kind: str, check: str, event: int) -> Finding:
    """A finding on the clean target, made up."""
    made_up = Divergence(kind, check, event, "made up")
    return Finding(Origin("builtin", seed=0, index=0, scope=Scope("engine")), Tape(config, events), made_up)


@pytest.mark.parametrize("mutant", CASES)
def test_the_bug_shows_in_a_mutant(mutant: str, run: Run) -> None:
    """The check that saw it sees it again, at the same step."""
    found = finding(mutant)
    code, out, err = run(script(found))
    assert (code, err) == (1, "")
    assert out.startswith(CASES[mutant][0])
    assert out.endswith(f"the bug shows: {found.divergence.kind}\n")


@pytest.mark.parametrize("mutant", ["forward-does-not-wait", "evict-parent-first"])
def test_no_bug_shows_in_the_clean_target(mutant: str, run: Run) -> None:
    """The same steps with the source as it is: no check fires, and no exception is raised."""
    found = finding(mutant)
    clean = replace(found, origin=replace(found.origin, mutant=None))
    assert run(script(clean)) == (0, "the bug does not show\n", "")


def test_the_cases_are_of_different_checks() -> None:
    """Scripts are tried with exceptions and with most checks."""
    seen = {finding(mutant).divergence.check for mutant in CASES}
    assert seen >= {"structure", "owners", "locks", "rows", "crash"}


def test_every_event_can_be_called(run: Run) -> None:
    """A script has a call for every event of the engine level, and every check can be its judge."""
    assert {type(event) for event in EVERY_EVENT} == set(ee.ENGINE_EVENTS)
    last = len(EVERY_EVENT) - 1
    code, out, err = run(script(silent(TIERS, EVERY_EVENT, "leak", "values", last)))
    assert (code, out, err) == (0, "the bug does not show\n", "")
    for check in {check for part in parts_of(TIERS) for check in part.checks}:
        module = check.look.__module__.removeprefix("staleloc.")
        assert f"from embedded.{module} import {check.look.__name__}" in script(
            silent(TIERS, EVERY_EVENT, "leak", check.name, last)
        )


def test_an_engine_that_never_comes_back(run: Run) -> None:
    """Of a process that was lost no step is known; a script that gets to its end shows nothing."""
    hang, crash = (script(silent(TOKENS, computed(0, 1, 1), kind, kind, -1)) for kind in ("hang", "crash"))
    assert run(hang) == (0, "the bug does not show\n", "")
    assert "engine = Engine(target, config, None)" in hang
    assert 'sys.exit(run_apart(main, MADE_FOR, "hang"))' in hang
    assert 'sys.exit(run_apart(main, MADE_FOR, "crash"))' in crash


def test_an_engine_that_cannot_be_driven_is_one_line(run: Run) -> None:
    """What fails in our own adapter, before any step, is no verdict."""
    text = script(finding("request-leaves-lock"))
    code, out, err = run(text.replace("target = BuiltinEngine()", "target = BuiltinEngine(1)"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("not played to the end: TypeError: ")
    assert err.endswith("(at: target = BuiltinEngine(1)); this script was made for "
                        "the builtin target of staleloc 0.1.0 with mutant request-leaves-lock\n")  # fmt: skip


def test_a_script_is_the_same_on_every_run() -> None:
    """Neither the order of hashes nor what ran before changes a byte; and nothing of ours is imported."""
    program = "import sys; from test_engine import finding, script; sys.stdout.write(script(finding(sys.argv[1])))"
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "1",
        "PYTHONPATH": os.pathsep.join((str(Path(__file__).parent), *sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-c", program, "request-leaves-lock"],
        capture_output=True, text=True, check=True, env=environment, encoding="utf-8",
    )  # fmt: skip
    text = script(finding("request-leaves-lock"))
    assert done.stdout == text == script(finding("request-leaves-lock"))
    assert not any(line.lstrip().startswith(("import staleloc", "from staleloc")) for line in text.splitlines())


def test_the_command_line_writes_it(tmp_path: Path) -> None:
    """``--repro`` of an engine-level tape writes a script whose first part is the tape, one call an event."""
    mutant = "request-leaves-lock"
    _, config, events = CASES[mutant]
    (tmp_path / "tape.json").write_text(dumps(Tape(config, events)))
    words = ["replay", "tape.json", "--target", "builtin", "--mutant", mutant, "--repro", "repro.py"]
    done = warm.run(["-m", "staleloc.sim", *words], tmp_path)
    assert done.returncode == 1
    assert "wrote repro.py" in done.stdout
    text = (tmp_path / "repro.py").read_text(encoding="utf-8")
    assert "    engine.arrive(request=0, tokens=(1, 1))  # 1\n" in text
    assert '    engine.finish(request=0)  # 5\n\n    return engine.verdict("leak", step=5)\n' in text
    assert "\n      4  checkpoint     request 0\n  >   5  finish         request 0\n" in text
    assert "    staleloc replay tape.json --target builtin --mutant request-leaves-lock\n" in text


def played(mutant: str | None, *events: Event) -> Engine:
    target = BuiltinEngine() if mutant is None else load_builtin(MUTANTS[mutant])
    engine = Engine(target, TOKENS, check_locks)
    for event in events:
        getattr(engine, event.kind)(**event.arguments())
    return engine


def test_a_verdict_is_about_one_class(capsys: pytest.CaptureFixture[str]) -> None:
    """The same class at another step is the bug, another class or an exception is not, and both are said."""
    events = (*computed(0, 1, 1), ee.Finish(0))
    assert played("request-leaves-lock", *events).verdict("leak", step=9) == 1
    assert capsys.readouterr().out.endswith("the bug shows: leak; it was found at step 9\n")
    assert played("request-leaves-lock", *events).verdict("use-after-free", step=5) == 2
    assert "another divergence shows (leak), not the bug (use-after-free)" in capsys.readouterr().out
    events = CASES["evict-parent-first"][2]
    for raised, code in (("AssertionError", 1), ("KeyError", 2), (None, 1)):
        assert played("evict-parent-first", *events).verdict("crash", 11, raised) == code
    assert played(None, *events).verdict("crash", 11, "AssertionError") == 0


def test_what_a_target_lacks_is_said() -> None:
    """A step that the target has no call for is no verdict, and a name that is no event is a mistake."""
    target = BuiltinEngine()
    target.profiles = tuple(
        replace(profile, events=profile.events - {"flush"}, missing={"flush": "it is never idle"})
        for profile in target.profiles
    )
    with pytest.raises(TargetError, match="flush cannot be played: it is never idle"):
        Engine(target, TOKENS, None).flush()
    with pytest.raises(AttributeError):
        _ = Engine(target, TOKENS, None).no_such_event
    target.profiles = ()
    with pytest.raises(TargetError, match="driven at the level of requests"):
        Engine(target, TOKENS, None)


def test_a_policy_that_the_target_lacks_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    """Releases name their tree cores differently; a script plays the tape on what there is, and says so."""
    Engine(BuiltinEngine(), replace(TOKENS, policy="native"), None)
    assert capsys.readouterr().out == "policy native is played as uncached\n"


@pytest.mark.parametrize("error", ["AttributeError", "TypeError", "ImportError", "NameError", "KeyError"])
@pytest.mark.parametrize("ours", [True, False], ids=["adapter", "engine"])
def test_an_adapter_that_does_not_fit_is_no_crash(error: str, ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails by name, parameter or field in our adapter of a release ends a script; in an engine it is the bug."""
    module = "staleloc.sim.targets.sglang.made_up" if ours else "sglang.srt.made_up"
    scope: dict[str, Any] = {"__name__": module}
    exec(f"def evict(self, full, swa):\n    raise {error}('gone')", scope)
    monkeypatch.setattr(BuiltinEngine, "evict", scope["evict"])
    monkeypatch.setattr(BuiltinEngine, "adapter", ("staleloc.sim.targets.sglang.",))
    engine = Engine(BuiltinEngine(), TOKENS, None)
    if ours:
        with pytest.raises(TargetError, match=rf"evict cannot be called \({error}: '?gone'?\)"):
            engine.evict(full=1, swa=0)
    else:
        engine.evict(full=1, swa=0)
        assert engine.verdict("crash", 1, error) == 1


def test_what_is_for_another_tree_is_not_played_by_hand_either() -> None:
    """A script of a tape for a tree that the release given lacks ends with 2 and says why."""
    with pytest.raises(TargetError, match=r"legacy tree SWARadixCache .* which builtin does not have"):
        Engine(BuiltinEngine(), replace(TOKENS, policy="swa-radix"), None)
