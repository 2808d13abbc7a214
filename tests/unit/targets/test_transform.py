"""Mutation: edits fit exactly one place or say so, and a mutated builtin leaves the clean one alone."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.targets.builtin import BuiltinTarget
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import Edit, Mutant, MutantError, Transform, load_builtin

_SOURCE = """
class Cache:
    def put(self, key):
        if key:
            self.forget()   # laid out
        self.table[
            key] = self.make(key)

    def drop(self, key):
        self.forget()
"""


def mutated(*edits: Edit, source: str = _SOURCE) -> str:
    return Transform(Mutant("test", "sglang", edits, "hybrid", ("native",), "a story"))("module", source)


def test_a_dropped_statement_leaves_a_valid_body() -> None:
    """Only the named function loses its statement, however it was laid out."""
    source = mutated(Edit("module", "Cache.put", "drop", "self.forget()"))
    assert source.count("self.forget()") == 1
    assert "if key:\n            pass" in source


def test_an_expression_inside_a_statement_can_be_replaced() -> None:
    """The rest of the statement stays."""
    source = mutated(Edit("module", "Cache.put", "replace", "self.make( key )", "key + 1"))
    assert "self.table[key] = key + 1" in source


def test_statements_can_be_put_beside_another() -> None:
    """New statements come right before or right after the one that is named."""
    source = mutated(
        Edit("module", "Cache.drop", "before", "self.forget()", "self.now = 1"),
        Edit("module", "Cache.drop", "after", "self.forget()", "self.then = 2"),
    )
    body = source.partition("def drop(self, key):")[2].split()
    assert body == ["self.now", "=", "1", "self.forget()", "self.then", "=", "2"]


def test_a_definition_under_a_condition_is_found() -> None:
    """A function defined inside an if is named as one that is not."""
    source = mutated(Edit("module", "f", "replace", "1", "2"), source="if True:\n    def f():\n        return 1\n")
    assert "return 2" in source


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            Edit("module", "Cache.put", "drop", "self.forgot()"),
            r"mutant test: drop in module, Cache\.put fits 0 places, not one: 'self\.forgot\(\)'",
        ),
        (
            Edit("module", "Cache", "drop", "self.forget()"),
            r"mutant test: drop in module, Cache fits 2 places, not one: 'self\.forget\(\)'",
        ),
        (
            Edit("module", "Cache.get", "drop", "self.forget()"),
            r"mutant test: drop in module, Cache\.get names 0 definitions, not one",
        ),
    ],
)
def test_an_edit_that_does_not_fit_says_which_and_where(edit: Edit, message: str) -> None:
    """The error names mutant, module and scope in one line."""
    with pytest.raises(MutantError, match=f"^{message}$"):
        mutated(edit)


def test_an_edit_of_a_module_never_loaded_is_an_error() -> None:
    """A transform that was never asked for its module must not pass for a mutation."""
    edit = Edit("other", "f", "drop", "pass")
    transform = Transform(Mutant("test", "sglang", (edit,), "hybrid", ("native",), "a story"))
    assert transform("module", _SOURCE) == _SOURCE
    with pytest.raises(MutantError, match="drop in other, f was not made"):
        transform.finish()


def test_a_module_is_known_by_its_former_names() -> None:
    """A release that calls the module otherwise is mutated too, and the edit counts as made."""
    edit = Edit("module", "Cache.put", "drop", "self.forget()", former=("old.module", "older.module"))
    transform = Transform(Mutant("test", "sglang", (edit,), "hybrid", ("native",), "a story"))
    assert transform("another", _SOURCE) == _SOURCE
    assert transform("older.module", _SOURCE).count("self.forget()") == 1
    transform.finish()


def test_mutated_and_clean_builtin_live_side_by_side() -> None:
    """Both are driven in turn in one process, and only the mutant hands out the padding slot."""
    clean, mutant = BuiltinTarget(), load_builtin(MUTANTS["alloc-hands-out-padding"])
    for target in (clean, mutant, clean):
        target.build(Config(policy="uncached"))
    assert (clean.alloc(1), mutant.alloc(1)) == ([1], [0])
    assert mutant.name == "builtin with alloc-hands-out-padding"
    assert type(mutant) is not BuiltinTarget
    assert importlib.import_module("staleloc.sim.targets.builtin").BuiltinTarget is BuiltinTarget


def test_a_failed_load_leaves_nothing_behind() -> None:
    """A mutant whose edits do not fit can be put right and loaded under the same name."""
    good = replace(MUTANTS["clear-keeps-mapping"], name="put-right")
    bad = replace(good, edits=(replace(good.edits[0], scope="SwaAllocator.flush"),))
    with pytest.raises(MutantError, match=r"SwaAllocator\.flush names 0 definitions"):
        load_builtin(bad)
    assert load_builtin(good).name == "builtin with put-right"


def test_a_mutant_of_sglang_is_not_loaded_as_builtin() -> None:
    """The name of the target it belongs to is in the message."""
    with pytest.raises(MutantError, match="changes sglang, not the builtin target"):
        load_builtin(MUTANTS["sglang-move-in-full-pool-only"])


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.target == "builtin"])
def test_every_builtin_mutant_loads_and_has_a_profile_to_show_it(name: str) -> None:
    """Its edits fit, it has one sentence of a story, and some profile of the builtin can show it."""
    mutant = MUTANTS[name]
    assert mutant.profiles(load_builtin(mutant).profiles)
    assert mutant.story
    assert not mutant.story.endswith(".")
