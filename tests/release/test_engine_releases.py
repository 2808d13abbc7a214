"""Real releases at the engine level: requests, tree and host tier are driven, and checked by a second opinion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from plain_run import LATER

Probe = Callable[..., dict[str, Any]]

BACK, THROUGH, NO_HOST = "write_back", "write_through", ""

DRIVEN: dict[str, dict[str, tuple[str, ...]]] = {
    "0.5.11": {"native": (NO_HOST,)},
    "0.5.12": {"native": (NO_HOST, THROUGH)},
    "0.5.12.post1": {"native": (NO_HOST, THROUGH)},
    "0.5.13": {"native": (NO_HOST, THROUGH, BACK)},
    "0.5.14": {"native": (NO_HOST, THROUGH, BACK)},
    "0.5.15": {"native": (NO_HOST, THROUGH, BACK)},
    "0.5.16": {"native": (NO_HOST, THROUGH, BACK)},
    "0.5.17": {"native": (NO_HOST, THROUGH, BACK)},
    "0.5.18": {"native": (NO_HOST, THROUGH, BACK)},
    "0.5.19": dict.fromkeys(("python-core", "rust-core"), (NO_HOST, THROUGH, BACK)),
    "0.5.20": dict.fromkeys(("python-core", "rust-core"), (NO_HOST, THROUGH, BACK)),
    "0.5.21": dict.fromkeys(("python-core", "rust-core"), (NO_HOST, THROUGH, BACK)),
    "0.5.23": dict.fromkeys(("python-core", "rust-core"), (NO_HOST, THROUGH, BACK)),
}
"""Version -> tree core -> the host tiers that one request after the other gets through. 0.5.12 frees device slots
before their write-back is over (PR 27108)."""

TOMBSTONE = ("0.5.11", "0.5.12", "0.5.14")
"""Recovering a tombstone frees full slots that another running request still reads."""

CLEAN = [
    ("0.5.16", "native", NO_HOST),
    ("0.5.16", "native", BACK),
    ("0.5.18", "native", NO_HOST),
    ("0.5.19", "python-core", BACK),
    ("0.5.23", "python-core", NO_HOST),
    ("0.5.23", "python-core", THROUGH),
    ("0.5.23", "rust-core", THROUGH),
    ("0.5.23", "rust-core", BACK),
]


FIRST = ("0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.18", "0.5.19", "0.5.23")
"""Releases with which something began or ended; the others are like their neighbours."""


@pytest.mark.parametrize("version", [pytest.param(it, marks=[] if it in FIRST else [LATER]) for it in DRIVEN])
def test_every_event_does_what_it_should(probe: Probe, version: str) -> None:
    answer = probe("engine_probe.py", f"sglang=={version}", "life")
    assert set(answer["profile"]["policies"]) == set(DRIVEN[version])
    assert answer["profile"]["host"] == (version != "0.5.11")
    assert ("transfer_done" in answer["profile"]["events"]) == (version != "0.5.11")
    for policy, hosts in DRIVEN[version].items():
        for host in hosts:
            assert answer["lives"][f"{policy} {host}"] == {"finished": 3, "from the host": 1 if host else 0}
    assert ("swa-radix " in answer["lives"]) == (version not in ("0.5.21", "0.5.23"))


@pytest.mark.parametrize(("version", "policy", "host"), CLEAN)
def test_random_play_is_silent(probe: Probe, version: str, policy: str, host: str) -> None:
    answer = probe("engine_probe.py", f"sglang=={version}", "plays", policy, host, "0", "3", "150")
    assert answer["failures"] == []
    assert answer["seen"]["hit"] > 0
    assert answer["seen"]["tombstones"] > 0
    assert (answer["seen"]["loaded"] > 0) == bool(host)


@pytest.mark.parametrize("version", TOMBSTONE)
def test_random_play_finds_what_recovery_took_from_a_running_request(probe: Probe, version: str) -> None:
    answer = probe("engine_probe.py", f"sglang=={version}", "plays", "native", NO_HOST, "0", "12", "200")
    assert answer["failures"]
    assert all(failure["what"].startswith("row and tree differ") for failure in answer["failures"])


def test_a_release_that_changed_is_one_clear_line(probe: Probe) -> None:
    answer = probe("engine_probe.py", "sglang==0.5.12", "drift")
    assert answer["message"] == (
        "sglang==0.5.12: a request cannot be run (AttributeError: 'Req' object has no attribute "
        "'init_next_round_input'); the adapter needs an update"
    )


def test_a_release_that_goes_on_without_its_rust_core_is_one_clear_line(probe: Probe) -> None:
    message = probe("engine_probe.py", "sglang==0.5.23", "fallback")["message"]
    assert message.startswith("asked for the tree core in rust, the release took the other: PyTorch")
