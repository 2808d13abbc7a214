"""What a worker gets of its machine: few variables, an empty folder, limits, no network, and an end with its parent.

A target is code that runs, so a worker is kept from what it does not need. This stops accidents and nosy code. It is no
sandbox: a worker still reads the user's files.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import site
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

import platformdirs

from ..core.lifetime import end_with_parent
from ..targets.base import TargetError
from ..targets.family import USER_FOLDER, USER_HOME

__all__ = ["Isolation", "choose", "chosen", "enter", "environment_of"]


class Isolation(Enum):
    """How much is kept from workers."""

    USUAL = "usual"
    """All that the system can keep from them without privileges."""

    OFFLINE = "offline"
    """The same, and no worker starts unless it is without network."""

    TRUSTED = "trusted"
    """Nothing: a worker has the user's variables, folder, home and network."""


_KEPT = frozenset(
    {"PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH",
     "LD_PRELOAD", "DYLD_LIBRARY_PATH"}
)  # fmt: skip

_KEPT_PREFIXES = (
    *("LC_", "PYTHON", "STALELOC_", "COVERAGE_", "SGLANG_", "TORCH", "PYTORCH_", "TRITON_", "CUDA_", "NVIDIA_"),
    *("OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "MALLOC_", "ASAN_", "LSAN_", "UBSAN_"),
)

_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH|COOKIE)$", re.IGNORECASE)
"""How the name of a secret ends. ``..._TOKEN_RATIO`` is none."""

_PATH_LISTS = ("PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

_FIXED = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}

ADDRESS_SPACE = 64 << 30
"""Bytes of address space. torch reserves a few gigabytes of it."""

FILE_SIZE = 1 << 30
"""Bytes of a file, of the worker's log too."""

_NEW_USER, _NEW_NETWORK = 0x1000_0000, 0x4000_0000

_chosen = Isolation.USUAL


def choose(isolation: Isolation) -> None:
    """Start workers so from now on.

    Raises:
        TargetError: this machine cannot.
    """
    global _chosen
    if isolation is Isolation.OFFLINE and not _can_leave_network():
        raise TargetError("this system does not let a process leave the network; run the command without --no-network")
    _chosen = isolation


def chosen() -> Isolation:
    """How workers are started."""
    return _chosen


def environment_of(folder: str, user: Mapping[str, str], isolation: Isolation) -> dict[str, str]:
    """The environment of a worker.

    Args:
        folder: an empty one, which is its home and where its temporary files go.
        user: the environment of the command.
    """
    if isolation is Isolation.TRUSTED:
        return {**user, **_FIXED}
    kept = {
        name: value
        for name, value in user.items()
        if (name in _KEPT or name.startswith(_KEPT_PREFIXES)) and not _SECRET.search(name)
    }
    for name in _PATH_LISTS:
        if name in kept:  # as seen from where the worker is not
            kept[name] = os.pathsep.join(os.path.abspath(it) for it in kept[name].split(os.pathsep) if it)
    kept.setdefault("STALELOC_CACHE", platformdirs.user_cache_dir("staleloc"))
    if site.ENABLE_USER_SITE:
        kept.setdefault("PYTHONUSERBASE", site.getuserbase())
    home = {"HOME": folder, "TMPDIR": folder, USER_FOLDER: os.getcwd(), USER_HOME: os.path.expanduser("~")}
    return {**kept, **home, **_FIXED}


def enter(isolation: Isolation, parent: int) -> None:
    """Keep from this process what it does not need, and let it end with its parent. Call this before anything else.

    Args:
        parent: process id of the parent, from the parent itself: the parent may have ended already.
    """
    if isolation is not Isolation.TRUSTED:
        if not _leave_network() and isolation is Isolation.OFFLINE:
            sys.exit("it could not leave the network")
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_FSIZE, FILE_SIZE)
        _limit(resource.RLIMIT_AS, ADDRESS_SPACE)
    end_with_parent(parent)


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(what, (most, most))


def _can_leave_network() -> bool:
    """Whether a process of this user can; tried by one that ends then."""
    if sys.platform != "linux":
        return False
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if _leave_network() else 1
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def _leave_network() -> bool:
    """Give this process, which has one thread yet, a network of its own, in which there is nobody.

    Only a privileged user may do so alone; others do it in a user namespace, in which they are who they were.
    """
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_NEW_NETWORK) == 0:
        return True
    user, group = os.geteuid(), os.getegid()
    if library.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        return False
    with contextlib.suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny", encoding="utf-8")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="utf-8")
    with contextlib.suppress(OSError):
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="utf-8")
    return True
