"""Draws of a config's fields reach the shapes that servers have, and shapes that nobody thought of."""

from __future__ import annotations

from collections import Counter

import pytest

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.registry import scope_of


def drawn(*features: str) -> list[Config]:
    """The configs of 400 tapes."""
    profiles = scope_of(None, "engine", features, True).of(BuiltinEngine.profiles)
    return [generate_tape(seeded(5, index), profiles).config for index in range(400)]


@pytest.mark.parametrize("features", [(), ("spec",), ("disagg",)])
def test_windows_are_multiples_of_a_page_and_not(features: tuple[str, ...]) -> None:
    """Shorter than a page, between two multiples, and of several pages."""
    configs = [it for it in drawn(*features) if it.page_size > 1]
    assert any(it.window < it.page_size for it in configs)
    assert any(it.window > it.page_size and it.window % it.page_size for it in configs)
    assert any(it.window >= 4 * it.page_size for it in configs)


@pytest.mark.parametrize("features", [(), ("spec",), ("disagg",)])
def test_every_pattern_of_layers_is_drawn(features: tuple[str, ...]) -> None:
    """SWA first, last, alone, and five of six."""
    layers = Counter(it.layers for it in drawn(*features))
    assert {(FULL, SWA), (SWA, FULL), (SWA,), (SWA,) * 5 + (FULL,)} <= set(layers)


@pytest.mark.parametrize("features", [(), ("spec",), ("disagg",), ("disagg", "spec")])
def test_some_models_have_a_context_length(features: tuple[str, ...]) -> None:
    """Others have none, as tapes of old versions."""
    contexts = [it.context_len for it in drawn(*features)]
    assert 0 in contexts
    assert any(contexts)


def test_pools_of_about_two_windows_are_drawn() -> None:
    """Real pools are larger, but there every window counts."""
    assert any(it.swa_size <= 2 * it.window + 2 * it.page_size < it.full_size for it in drawn())
