"""The GPU's class without a GPU: `torch.cuda`'s parts are replaced by ones that do everything at once.

What is shown is that graphs are captured and replayed through the calls that torch has, in their order, and
that an engine on that class does what one on the CPU's does. The card itself is the conformance run's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.targets.builtin import BuiltinEngine, cuda, engine_state
from staleloc.sim.targets.builtin.virtual_graph import VirtualGraph

GRAPHS = [profile for profile in BuiltinEngine.profiles if profile.features == ("graphs",)]


class Stream:
    """A stream on which everything is over at once. It knows whether a capture runs on it."""

    current: Stream

    def wait_stream(self, other: Stream) -> None:
        assert isinstance(other, Stream)

    def synchronize(self) -> None: ...


class Graph:
    """`torch.cuda.CUDAGraph` by its documented calls."""

    def __init__(self) -> None:
        self.virtual = VirtualGraph()

    def capture_begin(self, pool: object = None, capture_error_mode: str = "global") -> None:
        assert pool == (0, 7)
        assert Stream.current is not DEFAULT, "a capture must run on a stream of its own"
        self.block = self.virtual.capture()
        self.block.__enter__()

    def capture_end(self) -> None:
        self.block.__exit__(None, None, None)

    def replay(self) -> None:
        self.virtual.replay()


DEFAULT = Stream()


@contextmanager
def on(stream: Stream) -> Iterator[None]:
    before, Stream.current = Stream.current, stream
    try:
        yield
    finally:
        Stream.current = before


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which the default device is taken for a GPU."""
    Stream.current = DEFAULT
    empty, zeros = torch.empty, torch.zeros
    parts: dict[str, Any] = {
        "Stream": Stream,
        "CUDAGraph": Graph,
        "stream": on,
        "current_stream": lambda: Stream.current,
        "graph_pool_handle": lambda: (0, 7),
        "synchronize": lambda: None,
    }
    for name, part in parts.items():
        monkeypatch.setattr(torch.cuda, name, part)
    monkeypatch.setattr(torch.Tensor, "pin_memory", torch.Tensor.clone)
    monkeypatch.setattr(torch, "empty", lambda *args, pin_memory=False, **named: empty(*args, **named))
    monkeypatch.setattr(torch, "zeros", lambda *args, pin_memory=False, **named: zeros(*args, **named))
    monkeypatch.setattr(engine_state, "here", cuda.Cuda)


def verdicts(tapes: int) -> list[Any]:
    engine: Any = BuiltinEngine()
    played = []
    for index in range(tapes):
        tape = generate_tape(seeded(4, index), GRAPHS)
        verdict = play_tape(tape, engine, GRAPHS[0])
        contents = [engine.raw_contents(layer) for layer in range(len(tape.config.layers))]
        played.append((verdict, contents, engine.cache_hits()))
    return played


def test_an_engine_on_the_gpu_class_does_what_one_on_the_cpu_does(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over random tapes with graphs and a host tier: verdicts, situations, contents and cache hits."""
    on_gpu = verdicts(12)
    monkeypatch.undo()
    assert on_gpu == verdicts(12)
    seen = {name for verdict, _, _ in on_gpu for name in verdict.seen}
    assert {"ran_standard", "ran_piecewise", "ran_breakable", "ran_draft", "ran_speculative", "host_hit"} <= seen


def test_a_capture_that_fails_ends(gpu: None) -> None:
    """What a block raises comes out, the stream is the one before, and garbage is collected again."""
    import gc

    graph = cuda.Cuda().graph()
    with pytest.raises(ZeroDivisionError), graph.capture():
        raise ZeroDivisionError
    assert Stream.current is DEFAULT
    assert gc.isenabled()


def test_the_default_device_decides() -> None:
    """On the CPU the CPU's class, whose graphs are virtual."""
    assert isinstance(engine_state.here().graph(), VirtualGraph)
