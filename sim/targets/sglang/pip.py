"""pip as a process that ends with its parent: ``python -m ... PID ARGUMENT...``."""

from __future__ import annotations

import runpy
import sys

from ...core.lifetime import end_with_parent

__all__: list[str] = []

if __name__ == "__main__":
    end_with_parent(int(sys.argv.pop(1)))
    try:
        runpy.run_module("pip", run_name="__main__", alter_sys=True)
    except ImportError as error:
        sys.exit(f"{error}; install pip")
