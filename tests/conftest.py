"""What every test has: the package's workers begin with torch loaded, by `support/warm.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import warm


@pytest.fixture(scope="session", autouse=True)
def warm_workers() -> Iterator[None]:
    """Fork workers from a server that starts with the first of them."""
    warm.install()
    yield
    warm.uninstall()
