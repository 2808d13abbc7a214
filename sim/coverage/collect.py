"""Collectors: they note which lines of functions in some files this process runs, and change nothing else.

Lines of module and class bodies are left out: the line of a ``def`` may also be that of its body.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import defaultdict
from collections.abc import Collection
from types import CodeType, FrameType
from typing import Any, Protocol

__all__ = ["Collector", "Monitor", "Tracer", "collector"]

Lines = list[list[Any]]
"""``[file, [line, ...]]`` pairs, in order."""


class Collector(Protocol):
    """Notes the lines of some files that all threads run.

    Args:
        files: the files, by the names that their code has.
    """

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def fresh(self) -> Lines:
        """Return the lines that were run for the first time since the last call."""

    def forget(self) -> None:
        """Begin anew: lines that ran before count again when they run."""


class _Noted:
    def __init__(self, files: Collection[str]) -> None:
        self._files = frozenset(files)
        self._seen: set[tuple[str, int]] = set()
        self._told: set[tuple[str, int]] = set()

    def fresh(self) -> Lines:
        """See `Collector.fresh`."""
        if len(self._seen) == len(self._told):
            return []
        lines: dict[str, list[int]] = defaultdict(list)
        new = sorted(self._seen - self._told)
        for file, line in new:
            lines[file].append(line)
        self._told.update(new)
        return [[file, numbers] for file, numbers in lines.items()]

    def forget(self) -> None:
        """See `Collector.forget`."""
        self._seen.clear()
        self._told.clear()


class Monitor(_Noted):
    """A collector by ``sys.monitoring`` (Python 3.12): a line costs time only when it is run for the first time."""

    _TOOLS = range(1, 6)

    def start(self) -> None:
        """See `Collector.start`."""
        self._api: Any = getattr(sys, "monitoring")  # noqa: B009 - types of Python 3.11 have no such name
        self._tool = next(it for it in self._TOOLS if self._api.get_tool(it) is None)
        self._api.use_tool_id(self._tool, "staleloc")
        events = self._api.events
        self._api.register_callback(self._tool, events.LINE, self._line)
        self._api.register_callback(self._tool, events.PY_START, self._begin)
        self._api.set_events(self._tool, events.LINE | events.PY_START)
        self._api.restart_events()

    def stop(self) -> None:
        """See `Collector.stop`."""
        self._api.set_events(self._tool, 0)
        self._api.free_tool_id(self._tool)

    def forget(self) -> None:
        """See `Collector.forget`."""
        super().forget()
        self._api.restart_events()

    def _begin(self, code: CodeType, _offset: int) -> Any:
        return self._line(code, code.co_firstlineno)  # a function of one line has no other event

    def _line(self, code: CodeType, line: int) -> Any:
        if code.co_filename in self._files and _is_function(code):
            self._seen.add((code.co_filename, line))
        return self._api.DISABLE


class Tracer(_Noted):
    """A collector by ``sys.settrace``, for all versions of Python."""

    def start(self) -> None:
        """See `Collector.start`."""
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> None:
        """See `Collector.stop`."""
        sys.settrace(None)
        threading.settrace(None)

    def _call(self, frame: FrameType, _event: str, _value: object) -> Any:
        code = frame.f_code
        return self._line if code.co_filename in self._files and _is_function(code) else None

    def _line(self, frame: FrameType, event: str, _value: object) -> Any:
        if event == "line":
            self._seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


def collector(files: Collection[str]) -> Collector:
    """Return the fastest collector of this Python."""
    return Monitor(files) if hasattr(sys, "monitoring") else Tracer(files)
