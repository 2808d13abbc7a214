"""Plays requests on an engine target the way a scheduler does, and checks everything after every event."""

from __future__ import annotations

import random
import sys
from collections import Counter

from engine_checks import Broken, Tags, check

from staleloc.models.config import FULL, Config
from staleloc.sim.targets.base import V_MARK
from staleloc.sim.targets.engine import EngineTarget

__all__ = ["Play"]

SANE_WHILE_RUNNING = "0.5.11" not in sys.argv[1]
"""Up to 0.5.11 the release's own check wants no request to run; that of the legacy SWA tree always does."""


class Play:
    """One cache, its requests, and every event so far.

    Attributes:
        texts: request -> its tokens; the prompt first.
        computed: request -> how many have KV.
        events: what was asked for, one line each.
        seen: how often each interesting thing happened.
    """

    def __init__(self, target: EngineTarget, config: Config) -> None:
        self.target, self.config = target, config
        self.tags = Tags()
        self.texts: dict[int, list[int]] = {}
        self.prompts: dict[int, int] = {}
        self.computed: dict[int, int] = {}
        self.unsaved: set[int] = set()
        self.events: list[str] = []
        self.seen: Counter[str] = Counter()
        target.build(config)

    def arrive(self, request: int, tokens: list[int]) -> bool:
        """A request arrives and is admitted."""
        self.events.append(f"admit({request}, {tokens})")
        admission = self.target.admit(request, list(tokens))
        if admission is not None:
            view = self.target.raw_requests()[request]
            assert len(view.row) == view.shared == admission.cached, (admission, view)
            assert admission.cached < len(tokens)
            self.texts[request], self.prompts[request] = list(tokens), len(tokens)
            self.computed[request] = admission.cached
            self.seen["hit"] += admission.cached > 0
            self.seen["loaded"] += admission.loaded > 0
            self._match(request)
        self._after()
        return admission is not None

    def _match(self, request: int) -> None:
        """A match is in the tree: as many tokens as it says, with the window of the next one."""
        view, mapping = self.target.raw_requests()[request], self.target.raw_mapping()
        window = view.row[max(0, view.shared + 1 - self.config.window) :]
        if not all(mapping[loc] for loc in window):
            raise Broken(f"match of {request} without its window: {view}")

    def prefill(self, request: int, count: int) -> bool:
        """The next tokens of the prompt are computed and checkpointed."""
        self.events.append(f"prefill({request}, {count})")
        locs = self.target.prefill(request, count)
        if locs is None:
            self.seen["no room to prefill"] += 1
            self._after()
            return False
        start = self.computed[request]
        self._forward([(request, start, start + count)])
        self.unsaved.add(request)
        self._after()
        return True

    def checkpoint(self, request: int) -> None:
        """A chunk goes into the tree."""
        self.events.append(f"checkpoint({request})")
        self.target.checkpoint(request)
        self.unsaved.discard(request)
        self._after()

    def decode(self, requests: list[int], tokens: list[int]) -> bool:
        """One step of several requests."""
        self.events.append(f"decode({requests}, {tokens})")
        locs = self.target.decode(list(requests), list(tokens))
        if locs is None:
            self.seen["no room to decode"] += 1
            self._after()
            return False
        for request, token in zip(requests, tokens, strict=True):
            self.texts[request].append(token)
        self._forward([(r, self.computed[r], self.computed[r] + 1) for r in requests])
        self._after()
        return True

    def _forward(self, spans: list[tuple[int, int, int]]) -> None:
        for layer, kind in enumerate(self.config.layers):
            tags = [self.tags.tag(tuple(self.texts[r][: i + 1]), layer) for r, a, b in spans for i in range(a, b)]
            self.target.write(spans, layer, tags)
            for r, start, stop in spans:
                first = 0 if kind == FULL else max(0, start + 1 - self.config.window)
                rows = self.target.read(r, first, stop, layer)
                wanted = [self.tags.tag(tuple(self.texts[r][: i + 1]), layer) for i in range(first, stop)]
                if rows.keys != wanted or rows.values not in (None, [tag + V_MARK for tag in wanted]):
                    raise Broken(f"{r} reads {rows} at layer {layer}, positions {first}:{stop}, not {wanted}")
        for r, _, stop in spans:
            self.computed[r] = stop

    def step(self, what: str, *arguments: int) -> None:
        """An event that takes numbers and returns nothing."""
        self.events.append(f"{what}({', '.join(map(str, arguments))})")
        if what in ("finish", "abort"):
            self.texts.pop(arguments[0])
            self.computed.pop(arguments[0])
            self.unsaved.discard(arguments[0])
        getattr(self.target, what)(*arguments)
        self._after()

    def _after(self) -> None:
        check(self.target, self.config, self.tags, self.texts, self.computed)
        sane_while_running = SANE_WHILE_RUNNING and self.config.policy != "swa-radix"
        if not self.target.pending() and (not self.texts or sane_while_running):
            self.target.tree.sanity_check()  # the release's own
        nodes = self.target.raw_tree()
        self.seen["tombstones"] += any(n.full is not None and n.swa is None for n in nodes)
        self.seen["host only"] += any(n.full is None for n in nodes)
        self.seen["in flight"] += self.target.pending() > 0

    def random(self, draw: random.Random, events: int) -> None:
        """Play this many random events."""
        name = 0
        target, config = self.target, self.config
        page = config.page_size
        for _ in range(events):
            ready = [r for r in self.texts if self.computed[r] >= self.prompts[r] and r not in self.unsaved]
            partial = [r for r in self.texts if self.computed[r] < self.prompts[r] and r not in self.unsaved]
            kind = draw.choices(
                ["arrive", "prefill", "checkpoint", "decode", "window", "finish", "abort", "evict", "done", "flush"],
                [4, 6, 8, 12, 4, 2, 1, 1, 4 if config.host_full_size else 0, 0.05],
            )[0]
            if kind == "arrive" and len(self.texts) < 5:
                name += 1
                length = draw.randint(1, 5) * page + draw.randint(0, page)
                self.arrive(name, [draw.randint(1, 2) if i % page == 0 else 1 for i in range(length)])
            elif kind == "prefill" and partial:
                r = draw.choice(partial)
                rest = self.prompts[r] - self.computed[r]
                if not self.prefill(r, draw.choice([rest, draw.randint(1, rest)])) and draw.random() < 0.5:
                    self.step("abort", r)
            elif kind == "checkpoint" and self.unsaved:
                self.checkpoint(draw.choice(sorted(self.unsaved)))
            elif kind == "decode" and ready:
                batch = draw.sample(ready, draw.randint(1, len(ready)))
                if len(self.texts[batch[0]]) < config.full_size // 2 and not self.decode(
                    batch, [draw.randint(1, 2) for _ in batch]
                ):
                    self.step("abort", draw.choice(batch))
            elif kind == "window" and ready:
                self.step("evict_window", draw.choice(ready))
            elif kind == "finish" and ready:
                self.step("finish", draw.choice(ready))
            elif kind == "abort" and self.texts:
                self.step("abort", draw.choice(sorted(self.texts)))
            elif kind == "evict":
                self.step("evict", draw.randint(0, 4) * page, draw.randint(0, 4) * page)
            elif kind == "done" and target.pending():
                self.step("transfer_done", draw.randint(1, target.pending()))
            elif kind == "flush" and not self.texts:
                self.step("flush")
        for r in sorted(self.texts):
            self.step("abort", r)
        while target.pending():
            self.step("transfer_done", target.pending())
        self.step("evict", config.full_size, config.swa_size)
        left = [n for n in target.raw_tree() if n.full is not None or n.full_locks]
        if left:
            raise Broken(f"nothing runs, everything was evicted, and this is left: {left}")
