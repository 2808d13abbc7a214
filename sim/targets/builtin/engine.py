"""The builtin target at the level of requests: each of the scheduler's steps, put together from the parts."""

from __future__ import annotations

import torch

from ..base import Profile, Rows
from ..engine import Admission
from ..tags import decode, encode
from .engine_state import ENGINE, EngineState
from .requests import Request

__all__ = ["BuiltinEngine"]


class BuiltinEngine(EngineState):
    """The embedded implementation at both levels: a `Target` and an `EngineTarget`; `build` says which."""

    profiles: tuple[Profile, ...] = (*EngineState.profiles, ENGINE)

    def admit(self, request: int, tokens: list[int]) -> Admission | None:
        """See `EngineTarget.admit`. Never refused: what cannot be loaded back is computed again."""
        # The last token is computed in any case: its logits are wanted.
        keys = self._keys(tokens[: len(tokens) - 1])
        prompt = keys[: self._aligned(len(keys))]
        match = self._tree.match(prompt)
        row = self._table.take()
        loaded: int | None = 0
        lock = self._tree.lock(match.node, self._tree.window_start(match.node))
        if match.node is not match.device_node:
            loaded = self._load_back.load(lock, row)
        if loaded is None:
            self._slots.unlock(lock)
            loaded = 0
            # Matched again: making room may have taken the window of the shorter match.
            match = self._tree.match(prompt)
            lock = self._tree.lock(match.device_node, self._tree.window_start(match.device_node))
        shared = lock.node.end
        row[:shared] = torch.tensor(lock.node.prefix_locs())
        self._requests[request] = Request(list(tokens), row, length=shared, shared=shared, evicted=0, lock=lock)
        return Admission(cached=shared, loaded=loaded)

    def prefill(self, request: int, count: int) -> list[int] | None:
        """See `EngineTarget.prefill`. ValueError for no token at all: there would be no logits."""
        if count < 1:
            raise ValueError(f"request {request}: a prefill computes at least one token, not {count}")
        running = self._requests[request]
        start, stop = running.length, running.length + count
        self._make_room([start], [stop])
        locs = self._allocator.alloc_extend([start], [stop], self._last_locs([running]))
        if locs is not None:
            running.append(locs)
        return locs

    def decode(self, requests: list[int], tokens: list[int]) -> list[int] | None:
        """See `EngineTarget.decode`."""
        batch = [self._requests[request] for request in requests]
        seq_lens = [running.length + 1 for running in batch]
        self._make_room([running.length for running in batch], seq_lens)
        locs = self._allocator.alloc_decode(seq_lens, self._last_locs(batch))
        if locs is None:
            return None
        for running, token, loc in zip(batch, tokens, locs, strict=True):
            running.tokens.append(token)
            running.append([loc])
        return locs

    def write(self, requests: list[tuple[int, int, int]], layer: int, tags: list[int]) -> None:
        """See `EngineTarget.write`. A forward begins at layer 0 and goes through all layers with one loc tensor."""
        if layer == 0:
            for request, _, _ in requests:
                self._wait(request)
            self._locs = self._arena.place(self._locs_of(requests), "reused", 0)
            self._pool.policy.begin_forward()
            self._pool.policy.metadata(self._locs)
        self._pool.set_kv_buffer(layer, self._locs, *encode(tags, self._dtype))

    def read(self, request: int, start: int, stop: int, layer: int) -> Rows:
        """See `EngineTarget.read`."""
        self._wait(request)
        return decode(*self._pool.get_kv_buffer(layer, self._requests[request].row[start:stop]))

    def checkpoint(self, request: int) -> None:
        """See `EngineTarget.checkpoint`. The tokens of a page that is not full stay the request's own."""
        running = self._requests[request]
        keys = self._keys(running.tokens[: running.length])
        aligned = self._aligned(len(keys))
        node = self._insertion.insert(keys[:aligned], running.row[:aligned], running.shared, running.evicted)
        self._tree.count_insertion(node, self._config.priority_of(request))
        lock = self._tree.lock(node, self._tree.window_start(node, running.evicted))
        self._slots.unlock(running.lock)
        running.lock = lock
        running.shared = aligned
        self._tier.inserted(node)

    def evict_window(self, request: int) -> None:
        """See `EngineTarget.evict_window`. One page stays in any case, so that what is inserted ends with SWA rows."""
        running = self._requests[request]
        evicted = self._aligned(self._insertable(request) - max(self._config.window, self._config.page_size))
        if evicted <= running.evicted:
            return
        own = running.locs(max(running.evicted, running.shared), evicted)
        if own:
            self._allocator.free_swa(own)
        self._tree.release_window(running.lock, evicted)
        running.evicted = evicted

    def finish(self, request: int) -> None:
        """See `EngineTarget.finish`."""
        self.checkpoint(request)
        self._release(request)

    def abort(self, request: int) -> None:
        """See `EngineTarget.abort`."""
        self._release(request)

    def begin_results(self, kind: str) -> bool:
        """See `RequestTarget.begin_results`. One group for the results of a batch, whatever it computed."""
        self._allocator.free_group_begin()
        return True

    def abort_result(self, request: int) -> None:
        """See `RequestTarget.abort_result`. Nothing of it is inserted."""
        self.abort(request)

    def end_results(self) -> None:
        """See `RequestTarget.end_results`."""
        self._allocator.free_group_end()

    def evict(self, full: int, swa: int) -> None:
        """See `EngineTarget.evict`."""
        self._evictor.evict(full, swa)

    def transfer_done(self, count: int) -> None:
        """See `EngineTarget.transfer_done`."""
        self._evictor.settle(count)

    def flush(self) -> None:
        """See `EngineTarget.flush`. Waits for transfers first: their slots are about to be handed out anew."""
        self._evictor.settle(self.pending())
        self._tree.clear()
        self._allocator.clear()
        self._host.clear()

    # Inside

    def _locs_of(self, spans: list[tuple[int, int, int]]) -> list[int]:
        """The locs that a forward over these spans writes."""
        return [loc for request, start, stop in spans for loc in self._requests[request].locs(start, stop)]

    def _keys(self, tokens: list[int]) -> list[int]:
        """The keys of the tree for some tokens."""
        return tokens

    def _insertable(self, request: int) -> int:
        """How many keys of a request could be inserted now."""
        return self._requests[request].length

    def _aligned(self, length: int) -> int:
        """`length` down to whole pages."""
        return length // self._config.page_size * self._config.page_size

    def _last_locs(self, batch: list[Request]) -> list[int]:
        return [int(running.row[running.length - 1]) if running.length else -1 for running in batch]

    def _make_room(self, prefix_lens: list[int], seq_lens: list[int]) -> None:
        pages = self._allocator.full.pages_needed(prefix_lens, seq_lens)
        self._evictor.make_room(pages, pages)

    def _wait(self, request: int) -> None:
        """A forward waits for what it reads (SGLang's layer-wise load events)."""
        if self._transfers.queued:
            running = self._requests[request]
            self._evictor.settle(self._transfers.needed_for(running.locs(0, running.length)))

    def _release(self, request: int) -> None:
        """A request leaves with what the tree does not own."""
        running = self._requests.pop(request)
        own = running.locs(running.shared, running.length)
        if own:
            self._allocator.free(own)
        self._slots.unlock(running.lock)
        self._table.give_back(running.row)
