"""Call chains in the target's own code: which functions of an engine led to an exception, or to a change."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from types import FrameType

__all__ = ["MAX_CALLS", "Place", "is_targets", "places", "shown"]

_TOP = __name__.removesuffix(".sim.parts.calls")
"""Our package; inside a stand-alone script it has another name."""

_OURS = tuple(f"{_TOP}.{room}." for room in ("models", "sim.core", "sim.parts", "sim.run"))

_LIBRARIES = sys.stdlib_module_names | {"torch", "numpy", "pydantic", "msgspec"}

_CHANGED = re.compile(r"^sim\.targets\._\w+\.")
"""How the names of modules of a changed embedded target begin; see `load_changed`."""

MAX_CALLS = 8
"""Lines of a call chain that are shown."""

Place = tuple[FrameType, int]
"""A frame and the line it is at."""


def is_targets(module: str, adapter: tuple[str, ...]) -> bool:
    """Whether a module is the target's own: not ours, not the adapter's, and no library's."""
    return not module.startswith((*_OURS, *adapter)) and module.partition(".")[0] not in _LIBRARIES


def places(frames: Iterable[Place], adapter: tuple[str, ...]) -> list[str]:
    """Frames of the target's own code as ``file:line function``, outermost first.

    A file is named by its module, so that the place is the same wherever a release or a checkout lies.
    """
    return [
        f"{_file(frame.f_globals.get('__name__', ''))}:{line} {frame.f_code.co_qualname}"
        for frame, line in frames
        if is_targets(frame.f_globals.get("__name__", ""), adapter)
    ]


def _file(module: str) -> str:
    name = _CHANGED.sub("sim.targets.builtin.", module.removeprefix(f"{_TOP}."))
    return f"{name.replace('.', '/')}.py"


def shown(calls: Sequence[str]) -> tuple[str, ...]:
    """At most `MAX_CALLS` lines of a call chain: its ends are the most telling."""
    left_out = len(calls) - MAX_CALLS
    if left_out <= 0:
        return tuple(calls)
    return (calls[0], f"... {left_out + 1} more", *calls[left_out + 2 :])
