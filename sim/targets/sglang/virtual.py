"""A device that copies on command: its streams and events are queues, not hardware.

A release's HiCache controller asks its device module for streams and events, issues copies on a
stream and records events between them. Here a copy stays queued until its stream runs. A stream
runs in order; two streams run in any order that waiting between them allows. Everything outside a
stream happens at once, as on a device whose forward is over when the next step is scheduled, and a
wait there runs the stream that is waited for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

__all__ = ["Copy", "VirtualDevice", "VirtualEvent", "VirtualStream"]

Tensor = torch.Tensor


class Copy:
    """Rows to be copied, the same in each of several layers.

    Args:
        number: its place among all copies.
        sources: buffers to read, rows first.
        targets: as many buffers to write.
        source_rows: rows to read, int64.
        target_rows: as many rows to write.
    """

    def __init__(
        self,
        number: int,
        sources: Sequence[Tensor],
        targets: Sequence[Tensor],
        source_rows: Tensor,
        target_rows: Tensor,
    ) -> None:
        self.number = number
        self.sources, self.targets = list(sources), list(targets)
        self.source_rows, self.target_rows = source_rows.clone(), target_rows.clone()

    def run(self) -> None:
        """Copy the current content of the sources."""
        for source, target in zip(self.sources, self.targets, strict=True):
            target[self.target_rows] = source[self.source_rows]


class _Mark:
    """A place in a stream; done once the stream has passed it."""

    def __init__(self, stream: VirtualStream) -> None:
        self.stream = stream
        self.done = False


class _Wait:
    """A place in a stream that cannot be passed before another stream has passed a mark."""

    def __init__(self, mark: _Mark) -> None:
        self.mark = mark


class VirtualStream:
    """A queue of copies, marks and waits."""

    def __init__(self, device: VirtualDevice, *_args: object, **_kwargs: object) -> None:
        self.queue: deque[Copy | _Mark | _Wait] = deque()
        self._device = device
        device.streams.append(self)

    def wait_event(self, event: VirtualEvent) -> None:
        """Later operations come after the event."""
        event.wait(self)

    def synchronize(self) -> None:
        """Run everything that was issued."""
        while self.queue:
            self.step()

    def step(self) -> None:
        """Run the next item."""
        item = self.queue.popleft()
        if isinstance(item, Copy):
            item.run()
        elif isinstance(item, _Mark):
            item.done = True
        else:
            self._device.run_to(item.mark)

    def settle(self) -> None:
        """Pass what needs no copy."""
        while self.queue and not isinstance(self.queue[0], Copy):
            head = self.queue[0]
            if isinstance(head, _Wait) and not head.mark.done:
                return
            self.step()


class VirtualEvent:
    """A mark in a stream; before it is recorded, one that is done."""

    def __init__(self, device: VirtualDevice, *_args: object, **_kwargs: object) -> None:
        self._device = device
        self._mark: _Mark | None = None

    def record(self, stream: VirtualStream | None = None) -> None:
        """Mark this place in a stream, the current one unless given."""
        stream = stream or self._device.current
        self._mark = None
        if stream is not None and stream.queue:
            self._mark = _Mark(stream)
            stream.queue.append(self._mark)

    def query(self) -> bool:
        """Whether the stream has passed the mark."""
        return self._mark is None or self._mark.done

    def wait(self, stream: VirtualStream | None = None) -> None:
        """Make a stream wait for the mark; outside a stream, run to it now."""
        stream = stream or self._device.current
        if self._mark is None or self._mark.done:
            return
        if stream is None:
            self._device.run_to(self._mark)
        else:
            stream.queue.append(_Wait(self._mark))

    def synchronize(self) -> None:
        """Run to the mark now."""
        if self._mark is not None:
            self._device.run_to(self._mark)

    def elapsed_time(self, _end: VirtualEvent) -> float:
        """No time passes."""
        return 0.0


class _Outside:
    """The stream that is always up to date."""

    def __init__(self, device: VirtualDevice) -> None:
        self._device = device

    def wait_event(self, event: VirtualEvent) -> None:
        event.wait(self._device.current)


class VirtualDevice:
    """Stands for ``torch.cuda`` in a controller. A transfer is what lies between two marks of a stream, if copies do.

    Attributes:
        streams: every stream since the last `reset`.
        current: the stream that code inside ``with device.stream(...)`` runs on.
    """

    def __init__(self) -> None:
        self.streams: list[VirtualStream] = []
        self.current: VirtualStream | None = None
        self._copies = 0

    def reset(self) -> None:
        """Drop all streams and their queues."""
        self.streams = []

    def Stream(self, *args: object, **kwargs: object) -> VirtualStream:
        """A new stream."""
        return VirtualStream(self, *args, **kwargs)

    def Event(self, *args: object, **kwargs: object) -> VirtualEvent:
        """A new event."""
        return VirtualEvent(self, *args, **kwargs)

    @contextmanager
    def stream(self, stream: VirtualStream) -> Iterator[None]:
        """Issue on this stream inside the block."""
        outer, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = outer

    def current_stream(self, *_args: object) -> VirtualStream | _Outside:
        """The current stream."""
        return self.current or _Outside(self)

    def copy(
        self, sources: Sequence[Tensor], targets: Sequence[Tensor], source_rows: Tensor, target_rows: Tensor
    ) -> None:
        """Issue a copy; see `Copy`."""
        self._copies += 1
        copy = Copy(self._copies, sources, targets, source_rows, target_rows)
        if self.current is None:
            copy.run()
        else:
            self.current.queue.append(copy)

    def queued(self) -> Iterator[Copy]:
        """Every copy that has not run."""
        for stream in self.streams:
            yield from (item for item in stream.queue if isinstance(item, Copy))

    def pending(self) -> int:
        """How many transfers have not run."""
        count = 0
        for stream in self.streams:
            open_transfer = False
            for item in stream.queue:
                if isinstance(item, Copy):
                    count += not open_transfer
                open_transfer = isinstance(item, Copy)
        return count

    def run_oldest(self) -> None:
        """Run the transfer that was issued first."""

        def first(stream: VirtualStream) -> int:
            return next((item.number for item in stream.queue if isinstance(item, Copy)), self._copies + 1)

        stream = min(self.streams, key=first)
        copied = False
        while stream.queue and not (copied and not isinstance(stream.queue[0], Copy)):
            copied |= isinstance(stream.queue[0], Copy)
            stream.step()
        self.settle()

    def run_to(self, mark: _Mark) -> None:
        """Run a stream until it has passed a mark."""
        while not mark.done:
            mark.stream.step()
        self.settle()

    def run_all(self) -> None:
        """Run everything that is queued."""
        for stream in self.streams:
            stream.synchronize()

    def settle(self) -> None:
        """Pass every mark and wait that no copy holds back."""
        for stream in self.streams:
            stream.settle()
