"""A captured graph without a GPU: what ran on tensors is noted during a capture, and done again by a replay.

As with a CUDA graph, a capture computes nothing, addresses are fixed, and of the code that was captured
only its tensor operations come back: a branch that was not taken and an answer that was there already are
not in the graph. Until the first replay, what the graph computes holds a number that is no slot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["GraphError", "VirtualGraph"]

_ATEN = torch.ops.aten

_NO_SLOT = -(1 << 40)
"""What an integer holds that a graph computes, before the first replay."""


class GraphError(RuntimeError):
    """The code under capture did what no graph can hold; on a GPU the capture fails likewise."""


class _Call(NamedTuple):
    """One operation, its arguments, and the tensors that a replay writes its results to (none if it works in place)."""

    operation: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    results: tuple[Tensor, ...]


class VirtualGraph:
    """A list of operations on fixed storage."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Note the operations of the block instead of running them.

        Raises:
            GraphError: the block reads a value on the host, brings one from there, or makes a tensor whose
                shape depends on values.
        """
        with _HostReads(), _Recorder(self._calls):
            yield
        for call in self._calls:
            for result in call.results:
                result.fill_(math.nan if result.is_floating_point() else _NO_SLOT)

    def replay(self) -> None:
        """Run the operations in order, on the storage they were captured with."""
        for operation, args, kwargs, results in self._calls:
            made = operation(*args, **kwargs)
            if results:
                for result, value in zip(results, _tensors(made), strict=True):
                    result.copy_(value)

    def __len__(self) -> int:
        return len(self._calls)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes what is dispatched. A view is a view of fixed storage, hence nothing to do again."""

    def __init__(self, calls: list[_Call]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls = calls

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled here, and to be skipped takes the import of the compiler: seconds in every process.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        reason = _FORBIDDEN.get(func.overloadpacket)
        if reason is not None or (func is _ATEN.index.Tensor and _has_mask(args[1])):
            raise GraphError(f"{func} cannot be captured: {reason or _SHAPE}")
        if func._schema.is_mutable:
            self._calls.append(_Call(func, args, named, ()))
            return args[0]
        made = func(*args, **named)
        if not func.is_view:
            self._calls.append(_Call(func, args, named, _tensors(made)))
        return made


class _HostReads(TorchFunctionMode):
    """Refuses the ways to read a tensor that are not dispatched when it is on the CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in (Tensor.tolist, Tensor.numpy):
            raise GraphError(f"Tensor.{func.__name__} cannot be captured: {_WAITS}")
        return func(*args, **(kwargs or {}))


_WAITS = "the host would have to wait for a value that a capture does not compute"
_SHAPE = "the shape of its result depends on values, which change from replay to replay"

_FORBIDDEN: dict[Any, str] = {
    _ATEN._local_scalar_dense: _WAITS,
    _ATEN.lift_fresh: "its value comes from the host, once; a replay would serve it for ever",
    **dict.fromkeys((_ATEN.nonzero, _ATEN.masked_select, _ATEN.unique_dim, _ATEN._unique2), _SHAPE),
}
"""Operation -> why no graph can hold it."""


def _has_mask(indices: Sequence[Tensor | None]) -> bool:
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)


def _tensors(made: Any) -> tuple[Tensor, ...]:
    return (made,) if isinstance(made, Tensor) else tuple(made)
