"""The example of a declared event, and how a command meets such a file: from the tape to the script that needs no
staleloc."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest
import warm

from staleloc.models.config import SWA, Config
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.script.script import script
from staleloc.sim.parts import events_file, hooks
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.parts.drive import drive
from staleloc.sim.tapes.codec import dumps
from staleloc.sim.tapes.schema import summary_schema
from staleloc.sim.targets.builtin.target import BuiltinTarget
from staleloc.sim.targets.mutants.transform import load_changed

EXAMPLE = Path(__file__).parents[3] / "examples" / "compact"

EVENTS = str(EXAMPLE / "events.py")

PATCH = runpy.run_path(str(EXAMPLE / "patch.py"))

CONFIG = Config(policy="memo", full_size=2, swa_size=2, layers=(SWA, SWA), window=2)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def stale() -> Iterator[Tape]:
    """The pool is packed between two layers of a forward."""
    events_file.load(EVENTS)
    compact = hooks.declared()["compact"]()
    before = (ev.Alloc(0, 1), ev.BeginForward(((0, 0, 1),)), ev.WriteKv(0))
    yield Tape(CONFIG, (*before, compact, ev.WriteKv(1)))
    events_file.load(None)


@pytest.fixture
def command(tmp_path: Path) -> Run:
    """Run a command in an empty folder: its exit code, what it prints, and what it complains of."""

    def call(*words: str) -> tuple[int, str, str]:
        done = warm.run(["-m", "staleloc.sim", *words], tmp_path)
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.mark.parametrize("forget", [False, True])
def test_the_patch_in_memory_diverges_only_if_it_forgets(stale: Tape, forget: bool) -> None:
    """The source is changed as it is loaded."""
    name = f"_staleloc_compact_{forget}"
    target = load_changed(
        name, lambda module, source: PATCH["patched"]("builtin", module, source, forget)
    ).BuiltinTarget()
    divergence = drive(stale, target, BuiltinTarget.profiles[0]).divergence
    assert (divergence is not None) == forget
    assert divergence is None or (divergence.kind, divergence.stale_at) == ("stale-translation", 3)


def test_a_script_shows_it_without_us(stale: Tape, tmp_path: Path, run: Callable[[str], tuple[int, str, str]]) -> None:
    """The file of declared events comes along, as it is, and so does the changed copy of the target."""
    target = PATCH["copy"]("builtin", tmp_path / "patched", True)
    copy = load_changed("script", lambda module, source: source, root=tmp_path / "patched").BuiltinTarget()
    divergence = drive(stale, copy, BuiltinTarget.profiles[0]).divergence
    assert divergence is not None
    text = script(Finding(Origin(target, tape="t.json"), stale, divergence))
    assert "    cache.play(own.Compact())  # 4\n" in text
    code, out, err = run(text)
    assert (code, err) == (1, "")
    assert "actual    full loc 1 was written at layer 1 to SWA slot 1, expected 2\n" in out
    assert out.endswith("the bug shows: stale-translation\n")


def test_a_tape_is_replayed_with_the_file_and_refused_without(stale: Tape, tmp_path: Path, command: Run) -> None:
    """One line says which file is missing; with it, the copy that remembers is silent and the other is not."""
    known = {"provenance": {"events": events_file.events_origin(stale.events)}}
    (tmp_path / "t.json").write_text(dumps(Tape(CONFIG, stale.events, **known)), encoding="utf-8")
    good, bad = (PATCH["copy"]("builtin", tmp_path / name, name == "bad") for name in ("good", "bad"))
    code, out, err = command("replay", "t.json", "--target", good)
    assert (code, out) == (2, "")
    assert err == (
        "staleloc: t.json: event 4: $.events[3]: 'compact' is declared in a file called 'events.py'; "
        "give it: --events 'events.py'\n"
    )
    assert command("replay", "t.json", "--target", good, "--events", EVENTS)[0] == 0
    code, out, _ = command("replay", "t.json", "--target", bad, "--events", EVENTS, "--json", "out.json")
    assert code == 1
    assert f"--events {EVENTS}" in out
    summary = json.loads((tmp_path / "out.json").read_text())
    jsonschema.Draft202012Validator(summary_schema()).validate(summary)
    assert summary["divergences"][0]["tape"]["events"][3] == {"event": "compact"}
    code, out, err = command("replay", "t.json", "--target", "builtin", "--events", EVENTS)
    assert (code, out) == (2, "")
    assert err.endswith("Compact.call(): AttributeError: 'SwaAllocator' object has no attribute 'compact'\n")


def test_a_campaign_says_how_often_it_was_played(tmp_path: Path, command: Run) -> None:
    """And if it never was, where to look."""
    good = PATCH["copy"]("builtin", tmp_path / "good")
    words = ("fuzz", "--target", good, "--tapes", "16", "--workers", "2", "--events")
    code, out, err = command(*words, EVENTS)
    assert code == 0, out + err
    assert "declared event compact: played " in out
    never = Path(EVENTS).read_text() + "\n    def legal(self, books):\n        return False\n"
    (tmp_path / "never.py").write_text(never, encoding="utf-8")
    assert "declared event compact: never played" in command(*words, "never.py")[1]


@pytest.mark.parametrize("name", ["fuzz", "replay", "audit"])
def test_a_file_that_cannot_be_used_ends_every_command(tmp_path: Path, command: Run, name: str) -> None:
    """With one line and exit code 2, before anything is played."""
    (tmp_path / "bad.py").write_text("x = (", encoding="utf-8")
    words = [name, "t.json"] if name == "replay" else [name]
    assert command(*words, "--events", "bad.py") == (
        2,
        "",
        "staleloc: bad.py, line 1: '(' was never closed; it is not valid Python\n",
    )


@pytest.mark.parametrize("name", ["fuzz", "audit"])
def test_a_mistake_in_a_function_ends_every_command(tmp_path: Path, command: Run, name: str) -> None:
    """With one line and exit code 2; it is nothing that was found out about the target."""
    broken = Path(EVENTS).read_text().replace("cache.allocator.compact()", "cache.no_such_thing()")
    (tmp_path / "broken.py").write_text(broken, encoding="utf-8")
    budget = ("--tapes", "64", "--workers", "1") if name == "fuzz" else ("--rounds", "2")
    code, out, err = command(name, *budget, "--events", "broken.py")
    assert (code, out) == (2, "")
    mistake = "AttributeError: 'Cache' object has no attribute 'no_such_thing'"
    assert err == f"staleloc: broken.py, line 12, Compact.call(): {mistake}\n"


def test_a_draw_that_is_not_the_same_twice_ends_an_audit(tmp_path: Path, command: Run) -> None:
    """Tapes are drawn in one process and again in another; they have to be the same."""
    text = Path(EVENTS).read_text() + (
        "\n    count = iter(range(1 << 60))\n    times: int = 0\n\n    @classmethod\n"
        "    def draw(cls, model, random):\n        return cls(times=next(cls.count))\n"
    )
    (tmp_path / "restless.py").write_text(text.replace("import Cache", "import Cache"), encoding="utf-8")
    code, out, err = command("audit", "--rounds", "2", "--guards", "swa.py:*.free", "--events", "restless.py")
    assert (code, out) == (2, "")
    assert err.startswith("staleloc: restless.py: the same seed gave two different tapes")
    assert err.count("\n") == 1


def test_a_copy_with_a_slip_of_the_pen_says_where(tmp_path: Path, command: Run) -> None:
    """In one line with file and line, not only that something is no Python."""
    PATCH["copy"]("builtin", tmp_path / "mine")
    file = tmp_path / "mine" / "host_pool.py"
    file.write_text(file.read_text(encoding="utf-8") + "\ndef broken(:\n", encoding="utf-8")
    lines = len(file.read_text(encoding="utf-8").splitlines())
    code, out, err = command("audit", "--target", "builtin@mine", "--rounds", "1")
    assert (code, out) == (2, "")
    assert err.startswith("staleloc: builtin@mine: host_pool.py: ")
    assert f"line {lines}" in err
    assert err.count("\n") == 1


def test_a_file_without_events_of_the_level_is_refused(command: Run, tmp_path: Path) -> None:
    """Nothing would be played of it."""
    code, out, err = command("fuzz", "--features", "graphs", "--events", EVENTS)
    assert (code, out) == (2, "")
    assert err == "staleloc: declared events are of the allocator level; leave out --level engine --features graphs\n"
    text = Path(EVENTS).read_text(encoding="utf-8").replace("kind =", 'level = "engine"\n    kind =')
    (tmp_path / "other.py").write_text(text, encoding="utf-8")
    code, out, err = command("fuzz", "--events", str(tmp_path / "other.py"))
    assert (code, out) == (2, "")
    assert err == "staleloc: declared events are of the engine level; add --level engine\n"


@pytest.mark.parametrize(
    ("folder", "told"),
    [("nothing", "that folder holds no copy of the embedded target's sources"), ("broken", "could not be loaded: ")],
)
def test_a_copy_that_is_none_is_told(tmp_path: Path, command: Run, folder: str, told: str) -> None:
    """In one line, exit code 2."""
    PATCH["copy"]("builtin", tmp_path / "broken")
    (tmp_path / "broken" / "swa.py").write_text("import no_such_module", encoding="utf-8")
    code, _, err = command("fuzz", "--target", f"builtin@{folder}", "--tapes", "1")
    assert code == 2
    assert told in err
    assert err.count("\n") == 1
