"""Run in a process of its own: load one release, change its source if told to, and run a script or play a scenario."""

from __future__ import annotations

import json
import runpy
import sys

from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.legality import profile_of
from staleloc.sim.run.player import adapt
from staleloc.sim.tapes.scenarios import find_scenario
from staleloc.sim.targets.sglang.fetch import resolve
from staleloc.sim.targets.sglang.target import load


def main(spec: str, path: str, edits: dict[str, list[str]]) -> None:
    """Run the script at `path`, or play the scenario of that name.

    `edits` is a module -> what is there once, and what is put in its place, in turns.
    """
    made = set()

    def transform(module: str, source: str) -> str:
        if module in edits:
            made.add(module)
            for old, new in zip(edits[module][::2], edits[module][1::2], strict=True):
                assert source.count(old) == 1, f"{module} has {source.count(old)} of {old!r}"
                source = source.replace(old, new)
        return source

    target = load(resolve(spec), transform if edits else None)
    known = find_scenario(path)
    if known is None:
        try:
            runpy.run_path(path, run_name="__main__")
        finally:
            assert made == set(edits)
    else:
        tape, _ = adapt(known.tape, target.profiles)
        found = play_tape(tape, target, profile_of(tape.config, target.profiles)).divergence
        print("silent" if found is None else f"{found.kind} at event {found.event}: {found.what}")
    assert made == set(edits)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
