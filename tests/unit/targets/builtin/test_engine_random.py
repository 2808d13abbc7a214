"""The builtin engine under random requests, judged from raw state after every step by the plainest checks there are."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from staleloc.models.config import SWA, Config
from staleloc.sim.targets.base import V_MARK, Rows
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.engine import NodeView, slots_in_flight

STEPS = 600


@dataclass
class Running:
    """A request as its scheduler sees it: `computed` tokens of `tokens`, of which the first `prompt` came with it."""

    tokens: list[int]
    prompt: int
    computed: int
    unsaved: bool = False


class Scheduler:
    """Draws legal steps, and knows by content alone what every slot must hold."""

    def __init__(self, seed: int, config: Config, engine: Any) -> None:
        self.random = random.Random(seed)
        self.config = config
        self.engine = engine
        self.engine.build(config)
        self.running: dict[int, Running] = {}
        self.prompts: list[list[int]] = [[1]]
        self.tags: dict[tuple[tuple[int, ...], int], int] = {}
        self.names = iter(range(10_000))
        self.seen: Counter[str] = Counter()

    def step(self) -> None:
        steps = [self.admit, self.decode, self.evict_window, self.evict, self.finish, self.abort, self.transfer_done]
        waiting = [name for name, r in self.running.items() if r.unsaved or r.computed < r.prompt]
        if waiting and self.random.random() < 0.5:
            self.prefill(self.random.choice(waiting))
        else:
            self.random.choices(steps, [4, 6, 3, 2, 2, 1, 3])[0]()
        if not self.running and not self.engine.pending() and self.random.random() < 0.02:
            self.engine.flush()
            assert not self.engine.raw_tree()
        self.check()

    # Steps

    def admit(self) -> None:
        if len(self.running) == 4:
            return
        tokens = list(self.random.choice(self.prompts))
        tokens = tokens[: self.random.randint(1, len(tokens))]
        size = self.config.page_size
        for _ in range(self.random.randint(0, 3)):
            tokens += [self.random.randint(1, 2)] * self.random.randint(1, size)
        tokens = tokens[: self.config.full_size // 2]
        name = next(self.names)
        admission = self.engine.admit(name, tokens)
        assert admission is not None
        assert admission.loaded <= admission.cached < len(tokens)
        assert admission.cached % size == 0
        self.seen["hit"] += admission.cached > 0
        self.seen["host hit"] += admission.loaded > 0
        self.running[name] = Running(tokens, len(tokens), admission.cached)

    def prefill(self, name: int) -> None:
        request = self.running[name]
        if request.unsaved:
            self.engine.checkpoint(name)
            request.unsaved = False
            self.prompts = [*self.prompts[-8:], request.tokens]
            return
        count = self.random.randint(1, request.prompt - request.computed)
        locs = self.engine.prefill(name, count)
        if locs is None:
            pages = -(-(request.computed + count) // self.config.page_size)
            return self.refused(pages - -(-request.computed // self.config.page_size))
        assert len(locs) == count
        request.unsaved = True
        self.forward({name: count})

    def ready(self) -> list[int]:
        return [name for name, request in self.running.items() if request.computed >= request.prompt]

    def settled(self, ready: bool) -> int | None:
        names = self.ready() if ready else list(self.running)
        names = [name for name in names if not self.running[name].unsaved]
        return self.random.choice(names) if names else None

    def decode(self) -> None:
        batch = [name for name in self.ready() if not self.running[name].unsaved and self.random.random() < 0.7]
        if not batch:
            return
        tokens = [self.random.randint(1, 2) for _ in batch]
        if self.engine.decode(batch, tokens) is None:
            return self.refused(sum(self.running[name].computed % self.config.page_size == 0 for name in batch))
        for name, token in zip(batch, tokens, strict=True):
            self.running[name].tokens.append(token)
        self.forward(dict.fromkeys(batch, 1))

    def forward(self, counts: dict[int, int]) -> None:
        """Every layer writes the new tokens' rows and reads what attention reads."""
        spans = [(name, self.running[name].computed, self.running[name].computed + n) for name, n in counts.items()]
        for name, _, stop in spans:
            self.running[name].computed = stop
        for layer, kind in enumerate(self.config.layers):
            tags = [self.tag(self.running[name].tokens[: at + 1], layer) for name, a, b in spans for at in range(a, b)]
            self.engine.write(spans, layer, tags)
            for name, start, stop in spans:
                first = max(0, start + 1 - self.config.window) if kind == SWA else 0
                rows = self.engine.read(name, first, stop, layer)
                self.holds(rows, range(stop - first), self.running[name].tokens[:stop], layer)

    def refused(self, pages: int) -> None:
        free = self.engine.raw_free()
        assert pages > min(len(free.full), len(free.swa))
        self.seen["refused"] += 1
        if name := self.settled(ready=False):
            self.engine.abort(name)
            del self.running[name]

    def evict_window(self) -> None:
        if (name := self.settled(ready=False)) is not None:
            self.engine.evict_window(name)

    def evict(self) -> None:
        self.engine.evict(self.random.randint(0, 8), self.random.randint(0, 8))

    def finish(self) -> None:
        if (name := self.settled(ready=True)) is not None:
            self.engine.finish(name)
            self.prompts = [*self.prompts[-8:], self.running.pop(name).tokens]

    def abort(self) -> None:
        if (name := self.settled(ready=False)) is not None:
            self.engine.abort(name)
            del self.running[name]

    def transfer_done(self) -> None:
        if pending := self.engine.pending():
            self.engine.transfer_done(self.random.randint(1, pending))

    # Checks

    def tag(self, tokens: list[int], layer: int) -> int:
        return self.tags.setdefault((tuple(tokens), layer), len(self.tags) + 1)

    def holds(self, rows: Rows, slots: range | list[int], tokens: list[int], layer: int, busy: tuple[int, ...] = ()):
        """These slots hold the last of these tokens, except those that a transfer still writes."""
        start = len(tokens) - len(slots)
        for offset, slot in enumerate(slots, 1):
            if slot not in busy:
                tag = self.tag(tokens[: start + offset], layer)
                assert (rows.keys[slot], rows.values and rows.values[slot]) == (tag, tag + V_MARK)

    def check(self) -> None:
        nodes = {node.node: node for node in self.engine.raw_tree()}
        prefix: dict[int | None, list[int]] = {None: []}
        for node in nodes.values():
            prefix[node.node] = prefix[node.parent] + list(node.tokens)
            assert node.full is not None or node.host_full is not None
            assert node.parent is None or node.full is None or nodes[node.parent].full is not None
            self.seen["tombstone"] += node.full is not None and node.swa is None
        self.check_owners(list(nodes.values()))
        self.check_mapping(list(nodes.values()))
        self.check_contents(list(nodes.values()), prefix)
        self.check_locks(list(nodes.values()), prefix)

    def check_owners(self, nodes: list[NodeView]) -> None:
        """Every page and every host slot belongs to one, and none that a transfer uses is free or another's."""
        size, mapping = self.config.page_size, self.engine.raw_mapping()
        own = [loc for view in self.engine.raw_requests().values() for loc in view.row[view.shared :]]
        free, host_free = self.engine.raw_free(), self.engine.raw_host_free()
        in_nodes = {
            side: [slot for node in nodes for slot in getattr(node, side) or ()]
            for side in ("full", "swa", "host_full", "host_swa")
        }
        own_pages = list(dict.fromkeys(loc // size for loc in own))
        own_swa = list(dict.fromkeys(mapping[loc] // size for loc in own if mapping[loc]))
        full_pages = [slot // size for slot in in_nodes["full"][::size]]
        swa_pages = [slot // size for slot in in_nodes["swa"][::size]]
        assert sorted(full_pages + own_pages + free.full) == list(range(1, self.config.full_pages + 1))
        assert sorted(swa_pages + own_swa + free.swa) == list(range(1, self.config.swa_pages + 1))
        for slots in (in_nodes["full"], in_nodes["swa"]):
            assert all(
                slots[i : i + size] == list(range(slots[i], slots[i] + size)) for i in range(0, len(slots), size)
            )
        assert sorted(in_nodes["host_full"] + host_free.full) == list(range(self.config.host_full_size))
        assert sorted(in_nodes["host_swa"] + host_free.swa) == list(range(self.config.host_swa_size))
        device, host = slots_in_flight(self.engine.in_flight())
        for slots in (device.full, device.swa, host.full, host.swa):
            assert len(set(slots)) == len(slots)
        assert not {slot // size for slot in device.full} & set(free.full)
        assert not {slot // size for slot in device.swa} & set(free.swa)
        assert not set(host.full) & set(host_free.full)
        assert not set(host.swa) & set(host_free.swa)

    def check_mapping(self, nodes: list[NodeView]) -> None:
        """A node's SWA locs are the mapping of its full locs, and what has no SWA slot maps to 0."""
        mapping = self.engine.raw_mapping()
        mapped = {loc for loc, swa_loc in enumerate(mapping) if swa_loc}
        for node in nodes:
            for loc, swa_loc in zip(node.full or (), node.swa or [0] * len(node.full or ()), strict=True):
                assert mapping[loc] == swa_loc
            mapped -= set(node.full or ())
        for view in self.engine.raw_requests().values():
            pages = {loc // self.config.page_size for loc in view.row[view.shared :]}
            mapped -= {loc for loc in mapped if loc // self.config.page_size in pages}
        assert not mapped

    def check_contents(self, nodes: list[NodeView], prefix: dict[int | None, list[int]]) -> None:
        """Whoever has a row has the right one."""
        mapping = self.engine.raw_mapping()
        device, host = slots_in_flight(self.engine.in_flight())
        for layer, kind in enumerate(self.config.layers):
            swa = kind == SWA
            rows, host_rows = self.engine.raw_contents(layer), self.engine.raw_host_contents(layer)
            busy, host_busy = (tuple(side.swa if swa else side.full) for side in (device, host))
            for node in nodes:
                tokens = prefix[node.node]
                self.holds(rows, list((node.swa if swa else node.full) or ()), tokens, layer, busy)
                self.holds(host_rows, list((node.host_swa if swa else node.host_full) or ()), tokens, layer, host_busy)
            for name, view in self.engine.raw_requests().items():
                request = self.running[name]
                assert len(view.row) == request.computed
                start = max(0, request.computed + 1 - self.config.window) if swa else 0
                slots = [mapping[loc] if swa else loc for loc in view.row[start:]]
                assert 0 not in slots
                self.holds(rows, slots, request.tokens[: request.computed], layer, busy)

    def check_locks(self, nodes: list[NodeView], prefix: dict[int | None, list[int]]) -> None:
        """A node is locked once for each request that shares it, and for transfers."""
        for node in nodes:
            path = prefix[node.node]
            sharing = 0
            for name, view in self.engine.raw_requests().items():
                sharing += len(path) <= view.shared and self.running[name].tokens[: len(path)] == path
            assert sharing <= node.full_locks <= sharing + self.engine.pending()
            assert 0 <= node.swa_locks <= node.full_locks
            assert not node.swa_locks or node.swa is not None
            assert not node.full_locks or node.full is not None


CONFIGS = [
    Config(
        level="engine",
        policy=policy,
        page_size=size,
        full_size=pages * size,
        swa_size=(pages - pages // 4) * size,
        window=window,
        **host,
    )
    for policy, size, pages, window, host in (
        ("uncached", 1, 12, 3, {}),
        ("memo", 2, 12, 4, {}),
        ("memo", 16, 5, 8, {}),
        ("memo", 1, 12, 2, {"host_full_size": 6, "host_swa_size": 9}),
        ("memo", 2, 12, 5, {"host_full_size": 48, "host_swa_size": 24}),
        ("uncached", 4, 12, 4, {"host_full_size": 96, "host_swa_size": 96}),
        ("memo", 1, 12, 4, {"host_full_size": 30, "host_swa_size": 10, "write_policy": "write_back"}),
        ("memo", 4, 12, 6, {"host_full_size": 40, "host_swa_size": 24, "write_policy": "write_back"}),
    )
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.page_size}-{config.write_policy}")
def test_random_requests_leave_nothing_wrong(config: Config) -> None:
    """Every check holds after every step, and the walk meets hits, tombstones, refusals and the host."""
    scheduler = Scheduler(1, config, BuiltinEngine())
    for _ in range(STEPS):
        scheduler.step()
    assert min(scheduler.seen[name] for name in ("hit", "tombstone", "refused")) > 0
    assert scheduler.seen["host hit"] > 0 or not config.host_full_size
    for name in list(scheduler.running):
        scheduler.engine.abort(name)
    scheduler.running.clear()
    scheduler.engine.transfer_done(scheduler.engine.pending())
    scheduler.check()
    # A node that is copied to the host first holds its ancestors until the copy is over.
    while scheduler.engine.pending() or any(node.full for node in scheduler.engine.raw_tree()):
        scheduler.engine.transfer_done(scheduler.engine.pending())
        scheduler.engine.evict(config.full_size, config.swa_size)
        scheduler.check()
    assert len(scheduler.engine.raw_free().full) == config.full_pages
