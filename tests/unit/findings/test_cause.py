"""Which findings have one cause: by the function of the target that went wrong, or by the shape of minimal tapes."""

from dataclasses import replace
from pathlib import Path

import pytest

from staleloc.models.config import SWA, Config
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.cause import Cause, same_cause, site
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.search import find
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.parts.engine.events import Admit, Arrive, Finish, Prefill
from staleloc.sim.run.campaign import Budget
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import Transform, builtin_root
from staleloc.sim.targets.registry import scope_of

CONFIG = Config(page_size=2, full_size=8, swa_size=8, layers=(SWA,))
ENGINE = replace(CONFIG, level="engine")
REQUEST = (Arrive(0, (1, 1)), Admit(0), Prefill(0, 2), Finish(0))
FREE = "sim/targets/builtin/swa.py:117 SwaAllocator.free"
OVERLAP = (
    "sim/targets/builtin/engine.py:87 BuiltinEngine.finish",
    "sim/targets/builtin/insertion.py:52 Insertion._overlap",
)
LEAK = Divergence("leak", "owners", 3, "full page 1 has no owner and is in no free list", calls=OVERLAP)


def found(divergence: Divergence = LEAK, tape: Tape = Tape(ENGINE, REQUEST), target: str = "builtin") -> Finding:  # noqa: B008
    return Finding(Origin(target, seed=0, index=1), tape, divergence)


def test_who_called_the_allocator_is_to_blame() -> None:
    """A function that carries out what its caller asks for is not the place; an exception is where it was raised."""
    calls = (*OVERLAP, FREE)
    assert site(replace(LEAK, calls=calls), "builtin") == OVERLAP[-1]
    assert site(replace(LEAK, calls=(FREE,)), "builtin") is None
    assert site(replace(LEAK, kind="crash", calls=calls), "builtin") == FREE


def test_one_function_that_goes_wrong_in_one_way_is_one_cause() -> None:
    """Whatever the page, the line and the event."""
    elsewhere = (OVERLAP[0], OVERLAP[1].replace(":52", ":60"))
    later = Tape(ENGINE, (Arrive(1, (1,)), *REQUEST, Finish(1)))
    assert same_cause(found(), found(replace(LEAK, what="SWA page 3 has no owner", calls=elsewhere), later))
    assert same_cause(found(replace(LEAK, kind="race")), found(replace(LEAK, kind="use-after-free", check="races")))


def test_one_function_that_goes_wrong_in_two_ways_is_two_causes() -> None:
    """A leak of slots and a leak of locks in one function, although it is at the same line that both were lost."""
    assert not same_cause(found(), found(replace(LEAK, check="locks")))
    crash = replace(LEAK, kind="crash", what="admit raised KeyError: 3")
    assert same_cause(found(crash), found(replace(crash, what="finish raised KeyError: 4")))
    assert not same_cause(found(crash), found(replace(crash, what="admit raised ValueError: 3")))


def test_without_a_place_minimal_tapes_of_one_shape_are_one_cause() -> None:
    bare = replace(LEAK, calls=())
    assert same_cause(found(bare), found(replace(bare, what="another page")))
    assert not same_cause(found(bare), found(replace(bare, what="another page"), Tape(ENGINE, REQUEST[:3])))


@pytest.mark.parametrize(("last", "same"), [(ev.Free(0, 0), True), (ev.FreeSwa(0, 0, 2), False)])
def test_at_the_allocator_level_the_blamed_call_tells_causes_apart(last: object, same: bool) -> None:
    """The allocating method does not, where the allocation is not to blame."""
    one = Tape(CONFIG, (ev.AllocExtend(((0, 2),)), ev.Free(0, 0)))
    other = Tape(CONFIG, (ev.Alloc(0, 2), last))  # type: ignore[arg-type]
    divergence = Divergence("double-free", "ownership", 1, "full page 1 is in the free list more than once")
    assert same_cause(found(divergence, one), found(divergence, other)) is same


def test_a_cause_takes_over_one_that_turns_out_to_be_the_same() -> None:
    one, other = Cause([found()], 3, 1), Cause([found(replace(LEAK, kind="race"))], 4, 2)
    one.join(other)
    assert (len(one.findings), one.tapes, one.not_shrunk, one.label) == (2, 7, 3, "leak in Insertion._overlap")


def test_two_defects_in_one_function_are_two_causes(tmp_path: Path) -> None:
    """A copy of the embedded target that has both: neither hides the other. Of each, the shortest tapes are shrunk, and
    the others are counted."""
    one, other = MUTANTS["request-leaves-lock"], MUTANTS["request-leaks-tail"]
    both = Transform(replace(one, edits=one.edits + other.edits))
    for path in builtin_root().glob("*.py"):
        (tmp_path / path.name).write_text(both(path.stem, path.read_text(encoding="utf-8")), encoding="utf-8")
    origin = Origin(f"builtin@{tmp_path}", seed=0, scope=scope_of(None, "engine"))
    outcome = find(origin, Budget(32), 1)
    assert sorted((it.first.divergence.check, (it.place or "").rpartition(" ")[2]) for it in outcome.causes) == [
        ("locks", "BuiltinEngine._release"),
        ("owners", "BuiltinEngine._release"),
    ]
    assert sum(it.tapes for it in outcome.causes) == outcome.results.diverged
    assert all(it.not_shrunk for it in outcome.causes)
    assert len(outcome.findings) == sum(len(it.findings) for it in outcome.causes) < len(outcome.results.found)
