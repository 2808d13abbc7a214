"""Run in a process of its own: a release's decode node whose requests speculate, driven by hand, as a line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.legality import profile_of
from staleloc.sim.targets.scope import Scope
from staleloc.sim.targets.sglang.fetch import resolve
from staleloc.sim.targets.sglang.target import SglangTarget, load

PROMPT = list(range(1, 11))
NODES, WINDOW = 3, 4

_SENT = "max(total_prefix_len, seq_len - window_size)"
"""From where on the sender is told of SWA pages."""


def config(policy: str, tree: bool) -> Config:
    """A node with pages of four tokens and a chain of two."""
    return Config(
        level="engine", features=("disagg", "spec"), policy=policy, page_size=4, full_size=96, swa_size=96,
        window=WINDOW, layers=(FULL, SWA), decode_tree=tree, bigram=tree, spec_steps=2, spec_draft_tokens=NODES,
    )  # fmt: skip


def free(target: SglangTarget) -> list[list[int]]:
    """Both free lists."""
    slots = target.raw_free()
    return [sorted(slots.full), sorted(slots.swa)]


def send(target: SglangTarget) -> None:
    """Row `p` is 100 and `p` in the target's pool, 200 and `p` in the draft's."""
    row, mapping = target.raw_requests()[0].row, target.raw_mapping()
    for layer in (0, 1):
        slots = [(position, mapping[loc] if layer else loc) for position, loc in enumerate(row)]
        held = [(position, slot) for position, slot in slots if slot]
        target.receive(layer, [slot for _, slot in held], [100 + position for position, _ in held])
        target.receive_draft(layer, [slot for _, slot in held], [200 + position for position, _ in held])


def step(target: SglangTarget, accepted: int, first: int) -> int:
    """One step of which so many nodes are accepted; how many slots the request has in the middle of it."""
    start = target.raw_requests()[0].committed or 0
    assert target.prepare_decode([0])
    for layer in (0, 1):
        for depth, loc in enumerate(target.draft_branches([0])[0].slots[0]):
            target.write_draft([loc], layer, [200 + start + depth])
    target.drop_draft([0])
    assert target.begin_verify([0])
    for layer in (0, 1):
        target.write([(0, start, start + NODES)], layer, [100 + start + node for node in range(NODES)])
    allocated = len(target.raw_requests()[0].row)
    target.accept([0], [range(accepted)], [[first, *range(60, 59 + accepted)]])
    target.commit([0])
    return allocated


def stages(target: SglangTarget) -> list[Callable[[], object]]:
    """What a request goes through up to the middle of its first step."""
    return [
        lambda: target.enqueue(0, PROMPT, 8),
        target.preallocate,
        lambda: (send(target), target.arrived(0, 50)),
        target.start,
        lambda: target.prepare_decode([0]),
    ]


def right(target: SglangTarget) -> bool:
    """Whether attention reads what was written for each token."""
    stop = target.raw_requests()[0].committed or 0
    spans = ((0, 0), (1, stop - WINDOW + 1))
    return all(
        target.read(0, start, stop, layer).keys == [100 + position for position in range(start, stop)]
        for layer, start in spans
    )


def life(target: SglangTarget) -> dict[str, object]:
    """A request that is retracted in the middle of a step, resumes, and is done."""
    empty = free(target)
    for stage in stages(target)[:-1]:
        stage()
    allocated = step(target, 2, 50)
    drafted = target.read_draft(list(target.raw_requests()[0].row[: len(PROMPT)]), 0).keys
    read = [right(target)]
    active = target.raw_retractable(0)
    target.prepare_decode([0])
    target.retract(0)
    saved = len(target.raw_saved()[0])
    gone = free(target) == empty
    resumed = target.resume()
    target.start()
    read.append(right(target))
    step(target, 3, 70)
    read.append(right(target))
    committed = target.raw_requests()[0].committed
    target.finish(0)
    target.evict(96, 96)
    return {
        "allocated": allocated,
        "drafted": drafted == [200 + position for position in range(len(PROMPT))],
        "read": read,
        "retractable": active,
        "saved": saved,
        "gone": gone,
        "resumed": resumed,
        "committed": committed,
        "left": free(target) == empty,
    }


def aborts(target: SglangTarget, shape: Config) -> list[bool]:
    """For each stage, whether an abort at it gives everything back."""
    back = []
    for count in range(1, 6):
        target.build(shape)
        empty = free(target)
        for stage in stages(target)[:count]:
            stage()
        target.abort(0)
        target.evict(96, 96)
        back.append(free(target) == empty and not target.raw_requests())
    return back


def played(spec: str) -> dict[str, object]:
    """With a tree and without, as far as the release takes them together."""
    target = load(resolve(spec))
    profile = next(it for it in target.profiles if it.features == ("disagg", "spec"))
    found: dict[str, object] = {
        "versions": list(profile.spec_versions),
        "tree": profile.decode_tree,
        "excluded": sorted(" ".join(parts) for parts in profile.excluded),
    }
    for tree in (False, True) if profile.decode_tree else (False,):
        shape = config(profile.policies[0], tree)
        target.build(shape)
        found["with tree" if tree else "alone"] = {**life(target), "aborts": aborts(target, shape)}
    return found


def whole_tail(spec: str, tapes: str) -> dict[str, object]:
    """Which tapes of seed 0 diverge if the sender is told of every slot that was allocated."""

    def told(module: str, source: str) -> str:
        if module != "sglang.srt.disaggregation.decode":
            return source
        assert source.count(_SENT) == 1
        return source.replace(_SENT, "max(total_prefix_len, seq_len - self._swa_tail_len(seq_len))")

    target = load(resolve(spec), told)
    profiles = Scope("engine", ("disagg", "spec"), together=True).of(target.profiles)
    drawn = [generate_tape(seeded(0, index), profiles) for index in range(int(tapes))]
    verdicts = [play_tape(tape, target, profile_of(tape.config, profiles)).divergence for tape in drawn]
    return {"diverge": [index for index, found in enumerate(verdicts) if found is not None]}


if __name__ == "__main__":
    torch.set_num_threads(1)
    spec, *call = sys.argv[1:]
    print(json.dumps(globals()[call[0]](spec, *call[1:]) if call else played(spec)))
