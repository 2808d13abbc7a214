"""The alphabet: every step a scheduler can ask of the cache, as one frozen dataclass each.

An event names requests, copies and positions, never raw slots: the same tape therefore runs on any
target, whatever slots its allocator hands out. A position counts a request's tokens from 0; spans
are half-open, ``[start, stop)``.
"""

from __future__ import annotations

from ...core.event import Event, Span, events_in
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
    event for module in _MODULES for event in events_in(module.__name__, AllocatorEvent)
)
"""Every allocator-level event type, in the order in which the modules define them."""

KINDS: tuple[str, ...] = tuple(event.kind for event in EVENTS)
"""Their names."""
