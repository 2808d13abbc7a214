"""The world: requests, both pools, the mapping and every layer's contents, event by event.

Adopt, then verify: a target's answer to an allocation arrives as `Grant`s. After the checks have passed them, the world
adopts them and predicts all consequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .allocator import SlotPool
from .config import Config
from .contents import Contents, CopiedRows
from .forward import Forward
from .mapping import Mapping
from .situations import Witness

__all__ = ["Grant", "World"]


class Grant(NamedTuple):
    """One token's slots as a target handed them out. `swa` is 0 if it has none; `due` says whether one is due."""

    request: int
    position: int
    loc: int
    swa: int
    due: bool = True


@dataclass
class _Saved:
    requests: dict[int, list[int]]
    full: dict[int, int]
    swa: dict[int, int]
    allocated: list[int] = field(default_factory=list)


class World(Witness):
    """Everything that a tape touches.

    Attributes:
        requests: request -> full loc of each of its tokens.
        copies: copy -> its rows and the locs they came from.
        kept: locs of a tensor that the caller keeps -> their last translation.
    """

    def __init__(self, config: Config, restores_mapping: bool = True) -> None:
        super().__init__()
        self.config = config
        self.restores_mapping = restores_mapping
        self.full = SlotPool(config.full_pages)
        self.swa = SlotPool(config.swa_pages)
        self.mapping = Mapping(config.full_size + config.page_size)
        self.contents = Contents(config)
        self.requests: dict[int, list[int]] = {}
        self.copies: dict[int, tuple[CopiedRows, list[int]]] = {}
        self.kept: dict[tuple[int, ...], list[int]] = {}
        self.group_open = False
        self.forward: Forward | None = None
        self._saved: _Saved | None = None
        self._deferred: list[int] = []

    # Looking

    def locs(self, request: int, start: int = 0, stop: int | None = None) -> list[int]:
        """Full locs of a span of a request."""
        return self.requests.get(request, [])[start:stop]

    def last_loc(self, request: int) -> int:
        """Full loc of the request's last token, -1 if it has none."""
        locs = self.requests.get(request)
        return locs[-1] if locs else -1

    def mapped(self, locs: Iterable[int]) -> list[int]:
        """Those of `locs` that have an SWA slot."""
        table = self.mapping.table
        return [loc for loc in locs if table[loc]]

    def new_pages(self, request: int, count: int) -> int:
        """Pages that appending `count` tokens to a request takes."""
        length = len(self.requests.get(request, ()))
        return self.config.pages(length + count) - self.config.pages(length)

    # Allocation

    def grants(
        self, items: Sequence[tuple[int, int]], locs: list[int], actual: list[int], tail: int | None
    ) -> list[Grant]:
        """The answer to an allocation as grants.

        Args:
            items: ``(request, count)``, in the order of `locs`.
            locs: the full locs handed out.
            actual: the target's raw mapping after the call.
            tail: SWA slots are due for the last `tail` tokens only; None for all.
        """
        grants: list[Grant] = []
        rest = iter(locs)
        for request, count in items:
            length = len(self.requests.get(request, ()))
            head = 0 if tail is None else count - tail
            for offset, loc in zip(range(count), rest, strict=False):
                due = offset >= head
                swa = actual[loc] if due and 0 <= loc < len(actual) else 0
                grants.append(Grant(request, length + offset, loc, swa, due))
        return grants

    def remap_grants(self, request: int, start: int, swa: list[int]) -> list[Grant]:
        """Fresh SWA slots of tokens that live already, as grants."""
        locs = self.locs(request, start, start + len(swa))
        return [Grant(request, start + i, loc, slot) for i, (loc, slot) in enumerate(zip(locs, swa, strict=True))]

    def extend(self, grants: list[Grant]) -> None:
        """Adopt newly allocated tokens."""
        size = self.config.page_size
        for grant in grants:
            if grant.position % size == 0:
                self.full.adopt(grant.loc // size, grant.request)
            self.requests.setdefault(grant.request, []).append(grant.loc)
            if grant.loc in self.mapping.history:
                self.saw("slot_reused")
                if not grant.swa:
                    self.saw("tail_over_recycled")
            self._map(grant)
        if self._saved is not None:
            self._saved.allocated += [grant.loc for grant in grants]

    def remap(self, grants: list[Grant]) -> None:
        """Give live tokens fresh SWA slots."""
        if self.group_open and any(grant.loc in self._deferred for grant in grants):
            self.saw("remapped_in_group")
        for grant in grants:
            self._map(grant)
        self._note_change(grant.loc for grant in grants)

    def _map(self, grant: Grant) -> None:
        size = self.config.page_size
        if grant.swa:
            if grant.swa // size not in self.swa.owner:
                self.swa.adopt(grant.swa // size, grant.request)
            if grant.swa != grant.loc:
                self.saw("full_ne_swa")
            if grant.loc in self.mapping.history:
                self.saw("entry_remapped")
        self.mapping.set(self.now, grant.loc, grant.swa)

    def ask_kept(self, locs: list[int]) -> None:
        """Record the translation of a tensor of these locs that the caller keeps."""
        answer = [self.mapping.table[loc] for loc in locs]
        if self.kept.setdefault(tuple(locs), answer) != answer:
            self.saw("kept_asked_after_change")
            self.kept[tuple(locs)] = answer

    # Giving up

    def free(self, request: int, start: int) -> None:
        """End the request at `start`; both pools get the rest back."""
        locs = self.locs(request, start)
        size = self.config.page_size
        del self.requests[request][start:]
        self.full.release({loc // size for loc in locs}, self.group_open)
        self._unmap(locs)

    def free_swa(self, request: int, start: int, stop: int) -> None:
        """Free the SWA slots of a span's pages: whole pages, even if the span contains a part of one. The SWA slots of
        a page are one allocation (SGLang PR 27779)."""
        size = self.config.page_size
        if start % size or (stop % size and stop < len(self.requests[request])):
            self.saw("partial_page_evicted")
        locs = self.locs(request, start - start % size, self.config.pages(stop) * size)
        if self.mapped(locs):
            self.saw("window_evicted")
        self._unmap(locs)

    def _unmap(self, locs: list[int]) -> None:
        table = self.mapping.table
        self._note_change(self.mapped(locs))
        self.swa.release({table[loc] // self.config.page_size for loc in locs if table[loc]}, self.group_open)
        if self.group_open:
            self.saw("group_deferred")
            self._deferred += locs
            for loc in locs:
                self.mapping.forget(self.now, loc)
        else:
            for loc in locs:
                self.mapping.set(self.now, loc, 0)

    def release_swa(self, slots: Iterable[int]) -> None:
        """Free these SWA slots: a replaced mapping no longer names them."""
        self.swa.release({slot // self.config.page_size for slot in slots if slot}, False)

    def begin_group(self) -> None:
        """Open a free group."""
        self.group_open = True

    def end_group(self) -> None:
        """End the free group: everything freed in it is available and unmapped."""
        self.group_open = False
        self.full.close_group()
        self.swa.close_group()
        self.mapping.strict(self._deferred)
        self._deferred.clear()

    def clear(self) -> None:
        """Drop everything except copies on the CPU."""
        if any(self.requests.values()):
            self.saw("cleared")
        self._note_change(self.mapped(loc for locs in self.requests.values() for loc in locs))
        self.group_open = False
        self._deferred.clear()
        self.requests.clear()
        self.full.clear()
        self.swa.clear()
        self.mapping.clear(self.now)
        self._saved = None

    # Backup and restore

    def backup(self) -> None:
        """Save all owners."""
        requests = {request: list(locs) for request, locs in self.requests.items()}
        self._saved = _Saved(requests, self.full.snapshot(), self.swa.snapshot())

    def restore(self) -> None:
        """Undo the allocations since the backup. Unless the target restores the mapping, their entries may keep their
        last
        value until the slot is handed out again: no caller can read them."""
        assert self._saved is not None
        saved, self._saved = self._saved, None
        if saved.allocated:
            self.saw("restored")
        self.requests = saved.requests
        self.full.rewind(saved.full)
        self.swa.rewind(saved.swa)
        for loc in saved.allocated:
            if self.restores_mapping:
                self.mapping.set(self.now, loc, 0)
            else:
                self.mapping.forget(self.now, loc)

    # Forwards

    def begin_forward(self, tokens: list[tuple[int, int]]) -> list[int]:
        """Start a forward over these tokens; returns their full locs."""
        locs = [self.requests[request][position] for request, position in tokens]
        self.forward = Forward(tokens, locs, self.now)
        return locs

    def _note_change(self, locs: Iterable[int]) -> None:
        forward = self.forward
        if forward is not None and not set(forward.locs).isdisjoint(locs):
            forward.changed = True
            self.saw("changed_mid_forward")

    def new_tags(self, layer: int) -> list[int]:
        """Tags for the running batch at a layer."""
        assert self.forward is not None
        return self.contents.new_tags(self.forward.tokens, layer, self.now)

    def write(self, layer: int, tags: list[int]) -> None:
        """Store the running batch's rows in their slots."""
        assert self.forward is not None
        if self.contents.swa[layer] and self.forward.changed:
            self.saw("written_after_change")
        self.contents.write(layer, self.contents.slots(layer, self.forward.locs, self.mapping.table), tags)

    # Copies and moves

    def cpu_copy(self, copy: int, locs: list[int]) -> None:
        """Keep the expected content of a copy of these locs."""
        rows = self.contents.copy_out(locs, self.mapping.table)
        if any(rows.mask) and not all(rows.mask):
            self.saw("partial_mask")
        self.copies[copy] = (rows, locs)

    def load_cpu_copy(self, copy: int, locs: list[int]) -> None:
        """Load a copy: a row is restored if the copy holds it and the mapping has a slot for it."""
        rows, origin = self.copies[copy]
        table = self.mapping.table
        for held, loc in zip(rows.mask, locs, strict=True):
            if held != bool(table[loc]):
                self.saw("row_skipped" if held else "unfilled_hole")
        if locs != origin:
            self.saw("loaded_elsewhere")
        self.contents.copy_in(rows, locs, table)

    def move(self, targets: list[int], sources: list[int]) -> None:
        """Move rows in every layer."""
        self.saw("moved")
        self.contents.move(targets, sources, self.mapping.table)
