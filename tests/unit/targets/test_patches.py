"""Mutants written as patches: each hunk becomes the edit that its lines show."""

from __future__ import annotations

import pytest

from staleloc.sim.targets.mutants.patches import mutants
from staleloc.sim.targets.mutants.transform import Edit, Mutant

_BASE = Mutant("pool-", "sglang", (), "hybrid", ("native",), "", ("free",))

_TEXT = """
keeps-rows [clear move] releases=>=0.5.12,<0.5.19 policies=native,rust-core
    a story on
    two lines
    @@ pool Pool.clear
    - self.rows = []
    @@ pool Pool.size
    - -self.first
    + self.last
    @@ pool Pool.move
    + if not rows:
    +     return
      self.copy(rows)
    @@ pool Pool.free
      self.copy(rows)
    + self.rows = rows
says-nothing
    another story
    @@ pool Pool.say
    - print()
"""


def test_a_hunk_is_the_edit_that_its_lines_show() -> None:
    """Removed lines alone are dropped, added ones take their place, and lines without a sign only mark the place."""
    first, second = mutants(_BASE, _TEXT, {"pool": ("sglang.pool", "sglang.old_pool")})
    assert first.edits == (
        Edit("sglang.pool", "Pool.clear", "drop", "self.rows = []", "", ("sglang.old_pool",)),
        Edit("sglang.pool", "Pool.size", "replace", "-self.first", "self.last", ("sglang.old_pool",)),
        Edit("sglang.pool", "Pool.move", "before", "self.copy(rows)", "if not rows:\n    return", ("sglang.old_pool",)),
        Edit("sglang.pool", "Pool.free", "after", "self.copy(rows)", "self.rows = rows", ("sglang.old_pool",)),
    )
    assert second.edits == (Edit("sglang.pool", "Pool.say", "drop", "print()", "", ("sglang.old_pool",)),)


def test_a_mutant_has_what_its_base_has_unless_its_head_says_otherwise() -> None:
    """Names and events are added to those of the base; policies and releases take their place."""
    first, second = mutants(_BASE, _TEXT, {"pool": ("sglang.pool",)})
    assert (first.name, first.story) == ("pool-keeps-rows", "a story on two lines")
    assert (first.events, first.releases) == (("free", "clear", "move"), ">=0.5.12,<0.5.19")
    assert first.policies == ("native", "rust-core")
    assert (second.name, second.events, second.releases, second.policies) == (
        "pool-says-nothing",
        ("free",),
        "",
        ("native",),
    )


def test_a_head_that_is_no_head_is_refused() -> None:
    """A mutant without its name cannot be declared by mistake."""
    with pytest.raises(AssertionError, match=r"a mutant is declared as NAME \[EVENTS\] OPTION=VALUE, not 'two words'"):
        mutants(_BASE, "two words\n    a story\n    @@ pool Pool.say\n    - print()")
