"""The tables of docs/DISAGG.md are the model's, and the builtin allocates what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from staleloc.models.config import Config
from staleloc.sim.parts.decode_node.table import PAGE, PROMPTS, WINDOWS, cell, tables
from staleloc.sim.targets.builtin import BuiltinEngine

DOCUMENT = Path(__file__).parents[4] / "docs" / "DISAGG.md"


def allocated(prompt: int, window: int, page_size: int, swa_size: int) -> tuple[int, int]:
    """Slots that the builtin takes for a prompt."""
    size = -(-prompt // page_size) * page_size + page_size
    target = BuiltinEngine()
    target.build(
        Config(
            level="engine",
            features=("disagg",),
            policy="uncached",
            page_size=page_size,
            full_size=size,
            swa_size=swa_size or size,
            window=window,
        )
    )
    before = target.raw_free()
    assert target.enqueue(0, [1] * prompt, 1)
    assert len(target.preallocate().admitted) == 1
    after = target.raw_free()
    return (len(before.full) - len(after.full)) * page_size, (len(before.swa) - len(after.swa)) * page_size


def test_the_document_holds_the_tables() -> None:
    """Line by line; whoever changes the model writes them anew."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    assert [line for line in tables() if line not in lines] == []


@pytest.mark.parametrize(
    ("prompt", "window"), [(1024, 128), (1024, 4096), (4096, 4096), (8192, 128), (8192, 4096), (32768, 128)]
)
def test_the_builtin_takes_what_a_cell_says(prompt: int, window: int) -> None:
    """With a tail; an SWA pool of a tail and a page is enough."""
    full, tail, _ = cell(prompt, window)
    assert allocated(prompt, window, PAGE, tail + PAGE) == (full, tail)


@pytest.mark.parametrize(("prompt", "window"), [(131072, 128), (131072, 4096), (65536, 4096)])
def test_scaled_down_it_takes_the_same_share(prompt: int, window: int) -> None:
    """The longest prompts at a 32nd of their size, pages too."""
    full, tail, _ = cell(prompt, window)
    scaled = allocated(prompt // 32, window // 32, PAGE // 32, 0)
    assert (32 * scaled[0], 32 * scaled[1]) == (full, tail)


@pytest.mark.parametrize("prompt", [1024, 2048])
def test_without_a_tail_it_takes_all(prompt: int) -> None:
    """A pool of single slots takes no tail."""
    assert allocated(prompt, 128, 1, 0) == cell(prompt, 128, page_size=1)[::2]


@pytest.mark.parametrize("prompt", [1000, 1025, 1100])
def test_a_prompt_that_ends_inside_a_page(prompt: int) -> None:
    """Takes a page more at most."""
    full, tail, _ = cell(prompt, 128)
    assert allocated(prompt, 128, PAGE, 4 * PAGE) == (full, tail)
    assert 128 <= tail <= 128 + PAGE


def test_the_table_covers_realistic_lengths() -> None:
    """Prompts of 1k to 128k, and a small and a large window."""
    assert (PROMPTS[0], PROMPTS[-1], WINDOWS) == (1024, 131072, (128, 4096))
