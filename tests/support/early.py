"""Seeds from which a mutant is found early; a plain run looks for it from there.

From most seeds these mutants take seconds. Where what is drawn has changed, a seed of this table costs time and nothing
else: whatever seed it is, the mutant must be found from it.
"""

__all__ = ["EARLY", "early"]

EARLY: dict[str, int] = {
    "insert-leaf-unsplit": 3,
    "backup-of-split-node": 14,
    "load-back-unlocks-source": 8,
    "results-nested-group-drops-outer": 15,
    "use-counts-once": 19,
    "evict-newest-first": 3,
    "disagg-admission-before-lock": 18,
    "disagg-prefix-or-nothing": 5,
    "disagg-resume-takes-unaligned": 1,
    "disagg-resume-takes-all": 12,
    "disagg-prefix-charged-as-tail": 5,
    "disagg-output-asked-beside-prefix": 19,
    "disagg-looks-ahead-for-ever": 8,
    "disagg-looks-ahead-too-little": 8,
    "disagg-rejects-by-full-pool": 0,
    "disagg-retract-keeps-outgrown": 0,
    "disagg-start-inserts-unfilled": 10,
    "disagg-copy-without-mask": 11,
    "spec-rejected-not-freed": 10,
    "spec-accepted-not-moved": 6,
    "spec-accepted-moved-from-behind": 6,
    "spec-allocated-to-the-token": 2,
    "spec-row-of-a-verification": 11,
    "node-host-refused-load-keeps-lock": 18,
    "node-spec-retract-keeps-surplus": 4,
    "schedule-chunk-locks-its-node": 14,
    "schedule-accepts-more-than-a-pool": 8,
    "schedule-chunk-keeps-its-window": 4,
    "schedule-abort-leaves-it-waiting": 11,
}
"""Mutant -> seed, of those from which `STALELOC_LONG=1` looks for it."""


def early(name: str, usual: int) -> int:
    """The seed to look for a mutant from: the usual one, unless another finds it earlier."""
    return EARLY.get(name, usual)
