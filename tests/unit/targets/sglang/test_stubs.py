"""Stubs survive an import and fail, with their name, at any use after it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Optional

import pytest

from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.sglang.stubs import Stub, StubModule, StubUsed, importing

USES: dict[str, Callable[[Any], object]] = {
    "called": lambda stub: stub(),
    "subscripted": lambda stub: stub[0],
    "attribute": lambda stub: stub.anything,
    "attribute set": lambda stub: setattr(stub, "anything", 1),
    "iterated": list,
    "unpacked": lambda stub: [*stub],
    "true": bool,
    "measured": len,
    "searched": lambda stub: 1 in stub,
    "equal": lambda stub: stub == 1,
    "unequal": lambda stub: stub != 1,
    "ordered": lambda stub: stub < 1,
    "ordered the other way": lambda stub: stub >= 1,
    "index": lambda stub: [1, 2][stub],
    "int": int,
    "float": float,
    "formatted": lambda stub: f"{stub}",
    "isinstance": lambda stub: isinstance(1, stub),
    "issubclass": lambda stub: issubclass(int, stub),
    "entered": lambda stub: stub.__enter__(),
    "added": lambda stub: stub + 1,
    "added from the right": lambda stub: 1 + stub,
    "or": lambda stub: stub | None,
}


@pytest.mark.parametrize("use", USES)
def test_every_use_at_run_time_raises_with_the_dotted_name(use: str) -> None:
    stub = StubModule("sglang.srt.away").thing
    with pytest.raises(StubUsed, match=r"^stub used: sglang\.srt\.away\.thing \(") as caught:
        USES[use](stub)
    assert caught.value.stub == "sglang.srt.away.thing"


def test_a_used_stub_is_a_harness_gap_and_not_a_crash_of_the_engine() -> None:
    assert issubclass(StubUsed, TargetError)


def test_what_a_module_body_does_with_names_survives() -> None:
    module = StubModule("triton")
    with importing():

        @module.jit
        def kernel() -> None: ...

        @module.jit(num_warps=4)
        def other() -> None: ...

        class Child(module.Base, module.Second[int]):  # type: ignore[misc, name-defined]
            def method(self, _argument: Optional[module.Type] = module.DEFAULT) -> module.Type | None: ...  # type: ignore[name-defined] # noqa: UP045

        assert module.constexpr == module.constexpr
        assert not isinstance(1, module.Type)
    with pytest.raises(StubUsed, match=r"kernel \[decorated by triton\.jit\] \(subscripted\)"):
        kernel[1]
    with pytest.raises(StubUsed, match=r"other \[decorated by triton\.jit\(\)\] \(called\)"):
        other()
    with pytest.raises(StubUsed, match="Child"):
        Child()


def test_truth_is_refused_at_import_too() -> None:
    with importing(), pytest.raises(StubUsed, match=r"away\.flag \(tested for truth\)"):
        bool(Stub("away.flag"))


def test_a_missing_attribute_of_a_class_with_a_stub_base_is_a_use() -> None:
    with importing():

        class Child(Stub("away.Base")):  # type: ignore[misc]
            def __init__(self) -> None:
                self.own = 1

    child = Child()
    assert child.own == 1
    with pytest.raises(StubUsed, match=r"Child\.inherited"):
        _ = child.inherited


def test_a_stub_can_be_passed_around_and_shown() -> None:
    stub = Stub("away.thing")
    assert {stub: 1}[stub] == 1
    assert repr(stub) == "<stub away.thing>"


def test_the_error_crosses_a_process_border() -> None:
    error = StubUsed("away.thing", "called")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.stub) == (StubUsed, str(error), "away.thing")
