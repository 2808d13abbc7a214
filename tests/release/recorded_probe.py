"""Run in a process of its own: play tapes on a release and on its mutants, all in one process, print one line of JSON.

Loading a release takes seconds, so it is loaded once, as it is. A mutant exchanges the code of the functions that it
edits, and puts it back after each tape.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import torch

from staleloc.sim.core.choices import seeded
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.legality import profile_of
from staleloc.sim.targets.base import Target
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import Mutant, Transform
from staleloc.sim.targets.registry import open_target, parse

SEEDS = 5


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner.co_qualname, inner
            yield from _codes(inner)


@cache
def _functions(file: str) -> list[FunctionType]:
    return [it for it in gc.get_objects() if type(it) is FunctionType and it.__code__.co_filename == file]


Exchange = list[tuple[FunctionType, CodeType, CodeType]]
"""Functions, with their own code and that of a mutant."""


def _exchange(mutant: Mutant) -> Exchange:
    transform = Transform(mutant)
    exchange: Exchange = []
    for name in dict.fromkeys(edit.module for edit in mutant.edits):
        file = inspect.getfile(importlib.import_module(name))
        source = transform(name, Path(file).read_text(encoding="utf-8"))
        changed = dict(_codes(compile(source, file, "exec", dont_inherit=True)))
        scopes = {edit.scope for edit in mutant.edits if edit.module == name}
        own = [it for it in _functions(file) if it.__code__.co_qualname in scopes]
        assert {it.__code__.co_qualname for it in own} == scopes, f"{mutant.name}: {name} has not all of {scopes}"
        exchange += [(it, it.__code__, changed[it.__code__.co_qualname]) for it in own]
    transform.finish()
    return exchange


@contextmanager
def mutated(exchange: Exchange) -> Iterator[None]:
    """The release that is loaded has a mutant's defect."""
    for function, _, code in exchange:
        function.__code__ = code
    try:
        yield
    finally:
        for function, code, _ in exchange:
            function.__code__ = code


class Tapes:
    """Tapes for one mutant."""

    def __init__(self, target: Target, name: str) -> None:
        self.target, self.mutant = target, MUTANTS[name]
        self.profiles = self.mutant.profiles(target.profiles)

    @cached_property
    def exchange(self) -> Exchange:
        """What the mutant changes; a tape that was played before has imported it."""
        return _exchange(self.mutant)

    def play(self, seed: int, index: int) -> Divergence | None:
        """What a tape shows on the release as it is now."""
        tape = generate_tape(seeded(seed, index), self.profiles)
        profile = profile_of(tape.config, self.profiles)
        assert profile is not None
        return play_tape(tape, self.target, profile).divergence


def _check(divergence: Divergence | None) -> str | None:
    return None if divergence is None else divergence.check


def recorded(target: Target, record: str) -> dict[str, Any]:
    """For each mutant of a record, the check that its tape fires without it and with it."""
    shown = {}
    for name, (seed, index) in json.loads(record).items():
        tapes = Tapes(target, name)
        clean = tapes.play(seed, index)
        with mutated(tapes.exchange):
            shown[name] = [_check(clean), _check(tapes.play(seed, index))]
    return shown


def hunted(target: Target, name: str, limit: str) -> dict[str, Any]:
    """For each seed, the first tape that diverges with the mutant alone, and the check that it fires."""
    tapes = Tapes(target, name)
    return {str(seed): _first(tapes, seed, int(limit)) for seed in range(SEEDS)}


def _first(tapes: Tapes, seed: int, limit: int) -> list[Any] | None:
    for index in range(limit):
        clean = tapes.play(seed, index)
        if clean is None:
            with mutated(tapes.exchange):
                found = tapes.play(seed, index)
            if found is not None:
                return [index, found.check]
    return None


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(globals()[sys.argv[2]](open_target(parse(sys.argv[1])), *sys.argv[3:])))
