"""Run in a process of its own: play tapes of the audit's corpus on a release, each with and without a guard; print one
line of JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from staleloc.sim.audit.guards import changes_of
from staleloc.sim.audit.play.corpus import known_tapes, load_target, name_of, profiles_by_scope
from staleloc.sim.audit.play.patch import Functions, changed_code
from staleloc.sim.audit.source.program import read_tree
from staleloc.sim.audit.source.sites import map_of, read_program
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.legality import profile_of
from staleloc.sim.targets.sglang.fetch import resolve

FOLDER = Path("srt/mem_cache/unified_cache/components")


def missed(spec: str, pairs: str) -> list[list[str | None]]:
    """What each tape diverges by with the guard in place, and without it.

    Args:
        pairs: JSON, a list of a tape's name and a guard's.
    """
    wanted = json.loads(pairs)
    target = load_target(spec, None)
    profiles = [profile for scope in profiles_by_scope(target, spec).values() for profile in scope]
    tapes = {name_of(number).removeprefix("known tape "): tape for number, tape in known_tapes(profiles, spec)}
    package = f"sglang.{'.'.join(FOLDER.parts)}"
    reading = read_program(read_tree(resolve(spec).root / "sglang" / FOLDER, package))
    functions = {guard.split(":")[0].split(" without ")[0] for _, guard in wanted}
    changes = {it.name: it for it in changes_of(reading, map_of(reading), ",".join(f"*:{it}" for it in functions))}

    def play(name: str) -> str | None:
        tape = tapes[name]
        profile = profile_of(tape.config, profiles)
        assert profile is not None
        divergence = play_tape(tape, target, profile).divergence
        return divergence.kind if divergence is not None else None

    answer = []
    for name, guard in wanted:
        before = play(name)
        change = changes[guard]
        code = changed_code(reading.program.modules[change.spot.path].source.text, asdict(change), guard)
        patch = Functions().versions(f"{package}.{Path(change.spot.path).stem}", code) if code is not None else None
        assert patch is not None
        patch.put_in()
        answer.append([before, play(name)])
        patch.take_out()
    return answer


def probe(spec: str, pairs: str) -> dict[str, Any]:
    """See `missed`."""
    return {"missed": missed(spec, pairs)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(probe(*sys.argv[1:])))
