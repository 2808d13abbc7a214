"""Run a report's script on a release that is not installed: ``python docs/reports/run.py 0.5.23 SCRIPT``.

A script needs SGLang and torch, nothing of ours. Here the release comes from its wheel as the harness imports it, with
stand-ins for GPU kernels and for what is around the KV cache.
"""

from __future__ import annotations

import runpy
import sys

from staleloc.sim.targets.sglang.fetch import resolve
from staleloc.sim.targets.sglang.target import load

if __name__ == "__main__":
    load(resolve(f"sglang=={sys.argv[1]}"))
    runpy.run_path(sys.argv[2], run_name="__main__")
