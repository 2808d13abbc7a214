"""The steps of a tape as lines of a script: the engine's calls, and books of what must hold.

The books are as small as the divergence allows: the full locs of each request always, their SWA locs and the
contents of slots only where the last lines ask for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....models.config import SWA
from ...core.divergence import Divergence
from ...core.tape import Tape
from ...parts.allocator import events as ev
from ...parts.allocator.declared import DeclaredCall, Repack
from .dialect import Dialect, Lines
from .expressions import Expressions, Span

__all__ = ["Steps"]

_WITH_SWA = frozenset({"mapping", "ownership", "conservation", "alias", "bounds", "contents", "mask"})
_WITH_CONTENTS = frozenset({"contents", "mask"})


class Steps(Expressions):
    """Writes one event after the other.

    Attributes:
        tags: tags of the last write.
        grants: request, first position and count of what the last allocation or mapping handed out.
    """

    def __init__(self, tape: Tape, divergence: Divergence, dialect: Dialect) -> None:
        super().__init__(tape.config)
        self.dialect = dialect
        self.tags: list[int] = []
        self.grants: list[tuple[int, int, int]] = []
        self._swa = divergence.check in _WITH_SWA
        self._contents = divergence.check in _WITH_CONTENTS
        self._waiting = divergence.check == "conservation"
        self._next_tag = 1

    def write(self, event: ev.Event) -> tuple[Lines, Lines]:
        """The lines of an event: calls of the engine, and what to enter in the books afterwards."""
        if isinstance(event, DeclaredCall):
            return self._of_file(event)
        lines = _LINES[type(event)](self, event)
        self.ledger.apply(event)
        return lines

    def _of_file(self, event: DeclaredCall) -> tuple[Lines, Lines]:
        """What an event of somebody's file means is written in the books, one part after the other."""
        calls, books = self.dialect.declared(event.kind, f"own.{event!r}"), []
        self.grants = []
        for part in event.meaning(self.ledger):
            if isinstance(part, Repack):
                books += self._repack()
            elif isinstance(part, ev.SetMapping | ev.RegisterMapping):
                span = (part.request, part.start, part.stop)
                calls = [*calls, f"slots = [table()[loc] for loc in {self.locs([span])}]"]
                books += self._remapped(*span)
            else:
                books += _LINES[type(part)](self, part)[1]
            self.ledger.apply(part)
        return calls, books

    def _repack(self) -> Lines:
        if not self._swa:
            return []
        lines = [
            "was = {request: list(slots) for request, slots in swa.items()}",
            "for request, slots in was.items():",
            "    swa[request] = [table()[loc] if slot else 0 for loc, slot in zip(full[request], slots)]",
        ]
        if self._contents:
            lines += [
                "for n, kind in enumerate(layers):",
                '    if kind == "swa":',
                "        repacked(memory[n], was, swa, rows(n))",
            ]
        return lines

    # Allocation

    def _grant(self, items: list[tuple[int, int]], tail: int | None = None) -> Lines:
        """Enter what an allocation handed out; nothing if it does not fit."""
        ledger = self.ledger
        pages = sum(ledger.new_pages(request, count) for request, count in items)
        swa_pages = pages if tail is None else self.config.pages(tail)
        if pages > ledger.free_full or swa_pages > ledger.free_swa:
            self.grants = []
            return []
        self.grants = [(request, ledger.length(request), count) for request, count in items]
        lines, at = [], 0
        for request, count in items:
            part = "new" if len(items) == 1 else f"new[{at}:{at + count}]"
            lines.append(f"full[{request}] += {part}")
            if self._swa:
                lines.append(f"swa[{request}] += {self.swa_of(part, count, tail)}")
            at += count
        return lines

    def _alloc(self, event: ev.Alloc) -> tuple[Lines, Lines]:
        return self.dialect.alloc(event.count), self._grant([(event.request, event.count)])

    def _extend(self, event: ev.AllocExtend) -> tuple[Lines, Lines]:
        prefix = [self.ledger.length(request) for request, _ in event.items]
        seq = [length + count for length, (_, count) in zip(prefix, event.items, strict=True)]
        last = f"[{', '.join(self.last_locs(request for request, _ in event.items))}]"
        return self.dialect.alloc_extend(prefix, seq, last), self._grant(list(event.items))

    def _decode(self, event: ev.AllocDecode) -> tuple[Lines, Lines]:
        seq = [self.ledger.length(request) + 1 for request in event.requests]
        last = f"[{', '.join(self.last_locs(event.requests))}]"
        return self.dialect.alloc_decode(seq, last), self._grant([(request, 1) for request in event.requests])

    def _tail(self, event: ev.AllocExtendSwaTail) -> tuple[Lines, Lines]:
        prefix = self.ledger.length(event.request)
        (last,) = self.last_locs([event.request])
        calls = self.dialect.alloc_tail(prefix, prefix + event.count, last, event.tail)
        return calls, self._grant([(event.request, event.count)], event.tail)

    # Giving up

    def _wait(self, full: list[Span], swa: list[Span]) -> Lines:
        if not (self._waiting and self.ledger.group_open):
            return []
        return [f"waiting_full += {self.locs(full)}", f"waiting_swa += {self.locs(swa, 'swa')}"]

    def _free(self, event: ev.Free) -> tuple[Lines, Lines]:
        request, start, stop = event.request, event.start, self.ledger.length(event.request)
        unmapped, mapped = (self.mapped(request, start, stop, wanted) for wanted in (False, True))
        books = self._wait([(request, start, stop)], mapped)
        books.append(f"del full[{request}][{start}:]")
        if self._swa:
            books.append(f"del swa[{request}][{start}:]")
        return self.dialect.free(self.locs(unmapped), self.locs(mapped)), books

    def _free_swa(self, event: ev.FreeSwa) -> tuple[Lines, Lines]:
        size = self.config.page_size
        start = event.start // size * size
        stop = min(self.config.pages(event.stop) * size, self.ledger.length(event.request))
        books = self._wait([], [(event.request, start, stop)])
        if self._swa:
            books.append(f"swa[{event.request}][{start}:{stop}] = [0] * {stop - start}")
        return self.dialect.free_swa(self.locs([(event.request, event.start, event.stop)])), books

    def _group_end(self, event: ev.FreeGroupEnd) -> tuple[Lines, Lines]:
        books = ["waiting_full.clear()", "waiting_swa.clear()"] if self._waiting and self.ledger.group_open else []
        return self.dialect.group(False), books

    def _clear(self, event: ev.Clear) -> tuple[Lines, Lines]:
        return self.dialect.clear(), ["full.clear()", *(["swa.clear()"] if self._swa else [])]

    def _backup(self, event: ev.Backup) -> tuple[Lines, Lines]:
        return self.dialect.backup(), ["saved = copy.deepcopy((full, swa))"]

    def _restore(self, event: ev.Restore) -> tuple[Lines, Lines]:
        return self.dialect.restore(), ["full, swa = saved"]

    # The mapping

    def _remapped(self, request: int, start: int, stop: int) -> Lines:
        self.grants = [(request, start, stop - start)]
        return [f"swa[{request}][{start}:{stop}] = slots"] if self._swa else []

    def _set_mapping(self, event: ev.SetMapping) -> tuple[Lines, Lines]:
        span = (event.request, event.start, event.stop)
        return self.dialect.set_mapping(self.locs([span]), event.stop - event.start), self._remapped(*span)

    def _register(self, event: ev.RegisterMapping) -> tuple[Lines, Lines]:
        span = (event.request, event.start, event.stop)
        calls = self.dialect.register_mapping(self.locs([span]), event.stop - event.start)
        if event.start == event.stop:
            self.grants = []
            return calls, []
        return calls, self._remapped(*span)

    # Forwards

    def _begin(self, event: ev.BeginForward) -> tuple[Lines, Lines]:
        self.batch = event.spans
        count = sum(stop - start for _, start, stop in event.spans)
        return [f"batch = {self.locs(event.spans)}", *self.dialect.begin_forward(event, count)], []

    def _write(self, event: ev.WriteKv) -> tuple[Lines, Lines]:
        count = sum(stop - start for _, start, stop in self.batch)
        self.tags = list(range(self._next_tag, self._next_tag + count))
        self._next_tag += count
        books = []
        if self._contents:
            slots = self.locs(self.batch, "swa" if self.config.layers[event.layer] == SWA else "full")
            books = [f"put(memory[{event.layer}], {slots}, {self.tags})"]
        return self.dialect.write(event.layer, self.tags), books

    def _read(self, event: ev.ReadKv) -> tuple[Lines, Lines]:
        spans = self.attended(event.layer)
        return (self.dialect.read(event.layer, self.locs(spans)) if spans else []), []

    def _translate(self, event: ev.Translate) -> tuple[Lines, Lines]:
        return self.dialect.translate(event, self.asked(event), event.stop - event.start), []

    # Copies and moves

    def _slots(self, name: str, span: Span) -> Lines:
        if not self._contents:
            return []
        return [f'{name} = {{"full": {self.locs([span])}, "swa": {self.locs([span], "swa")}}}']

    def _cpu_copy(self, event: ev.CpuCopy) -> tuple[Lines, Lines]:
        span = (event.request, event.start, event.stop)
        books = self._slots("here", span)
        if books:
            books.append(f"copies[{event.copy}] = [kept(memory[n], here[kind]) for n, kind in enumerate(layers)]")
        return self.dialect.cpu_copy(event.copy, self.locs([span])), books

    def _load(self, event: ev.LoadCpuCopy) -> tuple[Lines, Lines]:
        span = (event.request, event.start, event.start + self.ledger.copies[event.copy])
        books = self._slots("here", span)
        if books:
            books += [
                "for n, kind in enumerate(layers):",
                f"    put(memory[n], here[kind], copies[{event.copy}][n])",
            ]
        return self.dialect.load_cpu_copy(event.copy, self.locs([span])), books

    def _move(self, event: ev.Move) -> tuple[Lines, Lines]:
        source = (event.request, event.source, event.source + event.count)
        target = (event.request, event.target, event.target + event.count)
        books = [*self._slots("there", source), *self._slots("here", target)]
        if books:
            books += [
                "for n, kind in enumerate(layers):",
                "    put(memory[n], here[kind], kept(memory[n], there[kind]))",
            ]
        return self.dialect.move(self.locs([target]), self.locs([source])), books


_LINES: dict[type[ev.Event], Callable[[Steps, Any], tuple[Lines, Lines]]] = {
    ev.Alloc: Steps._alloc,
    ev.AllocExtend: Steps._extend,
    ev.AllocDecode: Steps._decode,
    ev.AllocExtendSwaTail: Steps._tail,
    ev.Free: Steps._free,
    ev.FreeSwa: Steps._free_swa,
    ev.FreeGroupBegin: lambda steps, event: (steps.dialect.group(True), []),
    ev.FreeGroupEnd: Steps._group_end,
    ev.SetMapping: Steps._set_mapping,
    ev.RegisterMapping: Steps._register,
    ev.Backup: Steps._backup,
    ev.Restore: Steps._restore,
    ev.Clear: Steps._clear,
    ev.BeginForward: Steps._begin,
    ev.WriteKv: Steps._write,
    ev.ReadKv: Steps._read,
    ev.Translate: Steps._translate,
    ev.EndForward: lambda steps, event: (["pass  # nothing is asked of the cache"], []),
    ev.CpuCopy: Steps._cpu_copy,
    ev.LoadCpuCopy: Steps._load,
    ev.Move: Steps._move,
}
"""Event type -> its lines."""
