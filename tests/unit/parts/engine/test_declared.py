"""Declared events of the engine level: drawn, played between two steps, judged like any other, and shrunk."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import warm

from staleloc.models.config import Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.explain import steps
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.script.script import script
from staleloc.sim.parts import events_file, hooks
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine import events as ee
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.tapes.codec import dumps, loads
from staleloc.sim.tapes.reshape import repair
from staleloc.sim.tapes.shrink import shrink
from staleloc.sim.targets.base import Profile
from staleloc.sim.targets.builtin.graph_engine import GraphEngine
from staleloc.sim.targets.builtin.target import BuiltinTarget

Declare = Callable[..., None]

SWAP = """
import torch
from staleloc.sim.declared import Declared


class Swap(Declared):
    "two SWA pages change places"

    kind = "swap"
    level = "engine"
    weight = 12

    def legal(self, books):
        return not books.pending

    def call(self, cache):
        a, size = cache.allocator, cache.allocator.page_size
        one, other = torch.arange(size, 2 * size), torch.arange(2 * size, 3 * size)
        places = torch.arange(size * 64)
        places[one], places[other] = other, one
        a.full_to_swa_index_mapping[:-1] = places[a.full_to_swa_index_mapping[:-1]]
        for part in cache.pool.buffers_of["swa"]:
            part[:, torch.cat([one, other])] = part[:, torch.cat([other, one])]
        for node in cache.tree.nodes():
            if node.swa is not None:
                node.swa = places[torch.tensor(node.swa)].tolist()
        a.swa.restore(([{1: 2, 2: 1}.get(page, page) for page in a.swa.free_pages()], []))
        a.policy.invalidate()
"""

TRIM = """
from staleloc.sim.declared import Declared


class Trim(Declared):
    kind = "trim"
    level = "engine"
    request: int
    stop: int

    @classmethod
    def draw(cls, choices, books):
        if not books.requests:
            return None
        request = choices.pick(books.requests)
        return cls(request, choices.integer(1, books.length(request)))

    def call(self, cache):
        assert len(cache.locs(self.request, 0, self.stop)) == self.stop
"""


@pytest.fixture
def declare(tmp_path: Path) -> Iterator[Declare]:
    """Load a file with this text; it is forgotten at the end."""

    def write(text: str) -> None:
        path = tmp_path / "mine.py"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        events_file.load(str(path), "mine.py")

    yield write
    events_file.load(None)


def profile(*features: str) -> Profile:
    """How the builtin is driven at the engine level with these features."""
    return next(it for it in GraphEngine.profiles if (it.level, it.features) == ("engine", features))


def tapes(count: int, *features: str) -> list[Tape]:
    """Tapes of the engine level."""
    return [generate_tape(seeded(11, index), [profile(*features)]) for index in range(count)]


def found(count: int) -> set[str]:
    """``class (check)`` of what tapes show."""
    divergences = (drive_engine(tape, GraphEngine()).divergence for tape in tapes(count))
    return {f"{it.kind} ({it.check})" for it in divergences if it is not None}


@pytest.mark.parametrize("features", [(), ("graphs",)])
def test_a_method_that_does_it_right_is_silent(declare: Declare, features: tuple[str, ...]) -> None:
    """Its state is adopted: no check finds anything, though it is played often."""
    declare(SWAP)
    played = 0
    for tape in tapes(12, *features):
        verdict = drive_engine(tape, GraphEngine())
        assert verdict.divergence is None
        played += verdict.seen.get("event swap", 0)
    assert played > 30


@pytest.mark.parametrize(
    ("right", "wrong", "shown"),
    [
        ("node.swa = places[torch.tensor(node.swa)].tolist()", "pass", "stale-translation (values)"),
        ("part[:, torch.cat([one, other])] = part[:, torch.cat([other, one])]", "pass", "wrong-content (rows)"),
        ("{1: 2, 2: 1}.get(page, page) for", "page for", "use-after-free (owners)"),
        ("in a.swa.free_pages()]", "in a.swa.free_pages()][1:]", "leak (owners)"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_method_is_found(declare: Declare, right: str, wrong: str, shown: str) -> None:
    """By the check that is for it."""
    assert right in SWAP
    declare(SWAP.replace(right, wrong))
    assert shown in found(16)


def test_a_divergence_is_shrunk_to_the_event(declare: Declare) -> None:
    """What is left is little more than what it takes to show it."""
    declare(SWAP.replace("part[:, torch.cat([one, other])] = part[:, torch.cat([other, one])]", "pass"))

    def judge(tape: Tape) -> Divergence | None:
        return drive_engine(tape, GraphEngine()).divergence

    judged = ((tape, judge(tape)) for tape in tapes(8))
    tape, divergence = next((tape, it) for tape, it in judged if it is not None)
    shrunk = shrink(tape, divergence, profile(), judge, 400)
    kinds = [event.kind for event in shrunk.tape.events]
    assert (shrunk.divergence.event, kinds.count("swap")) == (kinds.index("swap"), 1)
    assert len(kinds) < 8
    assert steps(shrunk.tape)[kinds.index("swap")] == "two SWA pages change places"


def test_a_tape_with_one_is_read_again(declare: Declare) -> None:
    """By its name, with its values."""
    declare(TRIM)
    tape = next(tape for tape in tapes(8) if any(event.kind == "trim" for event in tape.events))
    assert loads(dumps(tape)).events == tape.events
    assert find_violation(tape, [profile()])[1] is None
    assert repair(tape.config, tape.events, profile()) == tape.events


def test_one_that_names_what_is_not_there_is_skipped(declare: Declare) -> None:
    """A request without locs, or a position beyond them."""
    declare(TRIM)
    trim = hooks.declared()["trim"]
    start = (ee.Arrive(0, (1,) * 8), ee.Admit(0), ee.Prefill(0, 8))
    config = Config(level="engine", policy="memo", page_size=4, full_size=32, swa_size=32, features=("graphs",))
    for event, played in ((trim(0, 8), 1), (trim(0, 400), 0), (trim(1, 1), 0)):
        verdict = drive_engine(Tape(config, (*start, event)), GraphEngine())
        assert verdict.divergence is None
        assert verdict.seen.get("event trim", 0) == played


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("def legal(self, books): return bool(books.mapped(0))", "mapped() is known at the allocator level only"),
        ("def apply(self, model): model.free(0, 0)", "free() is a word of the allocator level"),
        ("def legal(self, books): return None", "neither True nor False"),
    ],
)
def test_a_mistake_in_a_function_is_told(declare: Declare, method: str, told: str) -> None:
    """It is no divergence."""
    declare(f"{TRIM.replace('request: int', '').replace('stop: int', '')}\n    {method}".replace(
        TRIM[TRIM.index("    @classmethod") : TRIM.index("    def call")], ""
    ))  # fmt: skip
    with pytest.raises(hooks.DeclaredError, match=r"mine\.py, .*Trim") as error:
        drive_engine(Tape(tapes(1)[0].config, (hooks.declared()["trim"](),)), GraphEngine())
    assert told in str(error.value)


def test_what_the_engine_raises_is_a_crash(declare: Declare) -> None:
    """The file only called it."""
    declare(SWAP.replace("a, size =", "cache.allocator.set_mapping([10**6], [1]); a, size ="))
    assert found(4) == {"crash (crash)"}


def test_tapes_of_the_other_level_are_as_before(declare: Declare) -> None:
    """An event is drawn at its level only, and is refused at the other."""
    engine, allocator = tapes(4), [generate(seeded(1, index), BuiltinTarget.profiles) for index in range(8)]
    declare(SWAP)
    assert tapes(4) != engine
    assert [generate(seeded(1, index), BuiltinTarget.profiles) for index in range(8)] == allocator
    swap = hooks.declared()["swap"]()
    assert "declared for tapes of the engine level" in (swap.lacks(BuiltinTarget.profiles[0]) or "")
    declare(
        SWAP.replace('level = "engine"', "").replace(
            "    def call", "    def apply(self, model):\n        pass\n\n    def call"
        )
    )
    assert tapes(4) == engine


def test_a_script_shows_it_without_us(declare: Declare, tmp_path: Path) -> None:
    """The file comes along, and its event is played as it was."""
    declare(SWAP.replace("part[:, torch.cat([one, other])] = part[:, torch.cat([other, one])]", "pass"))
    judged = ((tape, drive_engine(tape, GraphEngine()).divergence) for tape in tapes(8))
    tape, divergence = next((tape, it) for tape, it in judged if it is not None)
    path = tmp_path / "shows.py"
    path.write_text(script(Finding(Origin("builtin", tape="t"), tape, divergence)), encoding="utf-8")
    done = warm.run([str(path)], tmp_path, without="staleloc")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == f"the bug shows: {divergence.kind}"
