"""The alphabet: every step a scheduler can ask of the cache, as one frozen dataclass each.

An event names requests, copies and positions, never raw slots: the same tape therefore runs on any
target, whatever slots its allocator hands out. A position counts a request's tokens from 0; spans
are half-open, ``[start, stop)``.
"""

from __future__ import annotations

from ...core.event import Event, Span
from . import allocation, copies, forwards, release, remapping
from .allocation import Alloc, AllocDecode, AllocExtend, AllocExtendSwaTail
from .copies import CpuCopy, LoadCpuCopy, Move
from .event import AllocatorEvent
from .forwards import SOURCES, STORAGES, BeginForward, EndForward, ReadKv, Translate, WriteKv
from .release import Free, FreeGroupBegin, FreeGroupEnd, FreeSwa
from .remapping import Backup, Clear, RegisterMapping, Restore, SetMapping

__all__ = [
    "Event", "EVENTS", "KINDS", "SOURCES", "STORAGES", "Span",
    "Alloc", "AllocExtend", "AllocDecode", "AllocExtendSwaTail", "Free", "FreeSwa",
    "FreeGroupBegin", "FreeGroupEnd", "SetMapping", "RegisterMapping", "Backup", "Restore", "Clear",
    "BeginForward", "WriteKv", "ReadKv", "Translate", "EndForward", "CpuCopy", "LoadCpuCopy", "Move",
]  # fmt: skip

_MODULES = (allocation, release, remapping, forwards, copies)

EVENTS: tuple[type[AllocatorEvent], ...] = tuple(
    it
    for module in _MODULES
    for it in vars(module).values()
    if isinstance(it, type)
    and issubclass(it, AllocatorEvent)
    and it.__module__ == module.__name__
    and "kind" in vars(it)
)
"""Every allocator-level event type, in the order in which the modules define them."""

KINDS: tuple[str, ...] = tuple(event.kind for event in EVENTS)
"""Their names."""
