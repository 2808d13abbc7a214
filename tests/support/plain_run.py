"""What a plain run leaves out: `tests/README.md` lists it, file by file. ``STALELOC_LONG=1 pytest`` takes it in."""

import os

import pytest

__all__ = ["LATER", "LONG"]

LONG = bool(os.environ.get("STALELOC_LONG"))
"""Whether this run leaves nothing out."""

LATER = pytest.mark.skipif(not LONG, reason="STALELOC_LONG=1 takes it in, see tests/README.md")
"""The mark of a test that a plain run leaves out."""
