"""The situations worth reaching. A campaign proves little about a situation that never happened in it."""

from __future__ import annotations

from collections import Counter

__all__ = [
    "DECISIVE",
    "DISAGG_SITUATIONS",
    "ENGINE_SITUATIONS",
    "GRAPH_SITUATIONS",
    "OVERLAP_SITUATIONS",
    "RESULT_SITUATIONS",
    "SCHEDULER_SITUATIONS",
    "SITUATIONS",
    "SPEC_NODE_SITUATIONS",
    "SPEC_SITUATIONS",
    "Witness",
]

SITUATIONS: dict[str, str] = {
    "full_ne_swa": "a token was given a full loc and a different SWA loc",
    "slot_reused": "a full slot was allocated again",
    "entry_remapped": "a full loc got a new SWA loc",
    "exhausted": "an allocation was refused because a pool was full",
    "tail_allocated": "a tail allocation left its head without SWA slots",
    "tail_over_recycled": "a tail allocation's head took full slots that were mapped earlier",
    "window_evicted": "free_swa freed the SWA slots of live tokens",
    "partial_page_evicted": "free_swa named a part of a page",
    "group_deferred": "a free waited for the end of its group",
    "remapped_in_group": "pages freed by free_swa inside a group were mapped again before its end",
    "idle_group_end": "free_group_end was called without an open group",
    "mapped_in_place": "live tokens were given fresh SWA slots in place",
    "mapping_replaced": "the mapping was replaced by a tensor that differs",
    "restored": "a restore undid allocations",
    "cleared": "the cache was flushed while requests were live",
    "storage_reused": "a forward's locs overwrote the buffer of an earlier forward",
    "view_at_offset": "a forward's locs were a view into a larger buffer",
    "precomputed": "a forward came with a precomputed translation",
    "changed_mid_forward": "the mapping of a running batch changed before its forward ended",
    "written_after_change": "a running batch wrote an SWA layer after its mapping changed",
    "asked_after_change": "the batch's locs were translated again after their mapping changed",
    "kept_asked_after_change": "a tensor that the caller keeps was translated again after its mapping changed",
    "cache_hit": "the target answered a translation from its cache",
    "window_read": "an SWA layer was read through the translation",
    "partial_mask": "a CPU copy held the SWA rows of some tokens only",
    "unfilled_hole": "a row that the copy does not hold was mapped when the copy was loaded",
    "row_skipped": "a row that the copy holds was not mapped when the copy was loaded",
    "loaded_elsewhere": "a copy was loaded into other slots than it came from",
    "moved": "KV was moved between mapped slots",
}
"""Name -> what happened, in one line."""

DECISIVE = ("idle_group_end",)
"""Situations in which the same event requests something else; a fault in one is a separate bug."""

ENGINE_SITUATIONS: dict[str, str] = {
    "prefix_hit": "a prompt matched a prefix in the tree, on the device",
    "host_hit": "a prompt matched rows that were on the host only, full or SWA, and they were loaded back",
    "remapped_load_back": "a node's rows were loaded back from the host to other slots than before",
    "partial_mask": "an offload or a load-back carried the SWA rows of some tokens only",
    "chunked": "a prompt was computed in more than one chunk",
    "shared_while_running": "two running requests shared a node",
    "node_split": "a node was split",
    "split_across_window": "a node was split inside which a running request's window began",
    "tombstoned": "a node lost its SWA slots and kept its full ones",
    "tombstone_recovered": "a tombstone got SWA slots again from a request that was inserted",
    "recovered_in_part": "a tombstone was split where a request's SWA rows begin, and its end recovered",
    "node_evicted": "a node was evicted from the device and stayed on the host",
    "host_evicted": "a node was evicted from the host",
    "host_short": "a write-back eviction had more to save than the host had free",
    "window_evicted_running": "window eviction freed SWA slots of a running request",
    "deduplicated": "a request's row was replaced by slots that the tree already had",
    "offload_in_flight": "a copy to the host was in flight",
    "freed_beside_flight": "the page next to one that a copy to the host was reading was freed",
    "forward_over_flight": "a forward ran while a transfer was queued",
    "policy_chose": "an eviction by another policy than lru took one leaf that nothing locks and left another",
    "refused": "a prefill or a decode step found no room",
    "retried": "an aborted prompt arrived again",
    "flushed": "the tree was reset",
}
"""The same for the engine level."""

RESULT_SITUATIONS: dict[str, str] = {
    "results_in_group": "two requests or more finished inside one free group, as results of a batch",
    "aborted_in_group": "a request was aborted inside the free group of a batch's results",
    "went_on_in_group": "a request of a batch went on after the free group of the batch's results",
    "recovered_in_group": "a tombstone got SWA slots again inside the free group of a batch's results",
    "evicted_in_group": "a node lost its slots on the device inside the free group of a batch's results",
}
"""The same for the results of whole batches, whatever decodes."""

GRAPH_SITUATIONS: dict[str, str] = {
    "captured_late": "a graph was captured while requests were running",
    "recaptured": "a graph was captured again",
    "no_graph_fits": "a batch was larger than every graph of its runner, and ran without one",
    "ran_standard": "a decode step went through one graph",
    "ran_piecewise": "a chunk went through a graph a layer",
    "ran_breakable": "a batch went through a graph with breaks",
    "ran_draft": "a draft went through its graph",
    "ran_speculative": "a draft was verified through the target's graph",
    "padded": "a batch was smaller than its graph",
    "padded_after_larger": "a batch was smaller than one that its graph had run before",
    "remapped_between_runs": "a full loc had another SWA loc than when a graph ran it last",
    "verified_elsewhere": "a draft was verified at other slots than it was computed at",
    "load_back_before_verify": "rows were loaded back from the host between a draft and its verification",
    "accepted_all": "a whole draft was accepted",
    "accepted_some": "a part of a draft was accepted",
    "accepted_none": "a whole draft was rejected",
}
"""The same with captured graphs."""

SPEC_SITUATIONS: dict[str, str] = {
    "prepared_after_commit": "a row grew beyond what is committed, and the last step was committed",
    "prepared_before_commit": "a row grew before the last step was committed",
    "verified_before_commit": "a step was verified before the one before it was committed",
    "window_evicted_uncommitted": "window eviction freed SWA slots of a request before its last step was committed",
    "evicted_to_prepare": "the tree evicted a node to make room for a step",
    "page_copied": "the page in which a draft starts was copied to its other branches",
    "admitted_between": "a request was admitted between another's draft and its verification",
    "loaded_between": "a load-back began between a draft and its verification",
    "draft_slots_reused": "slots of a draft that was not verified yet were given to another request",
    "accepted_all": "a path of the full depth of a draft was accepted",
    "accepted_some": "a part of a draft was accepted",
    "accepted_none": "a whole draft was rejected",
    "accepted_off_front": "the accepted nodes were not the first ones",
    "move_overlaps": "accepted KV moved to slots of other accepted nodes",
    "accepted_across_pages": "an accepted path crossed the end of a page",
    "rejected_in_page": "rejected nodes lay in a page with accepted tokens",
    "surplus_at_finish": "a request finished with more pages than it had committed",
    "surplus_at_abort": "a request was aborted with more pages than it had committed",
    "left_uncommitted": "a request left before its last step was committed",
    "page_short_of_keys": "a full page of tokens had one key too few and stayed the request's own",
    "same_tokens_other_keys": "two nodes with the same first page of tokens differed in the token after it",
}
"""The same for speculative decode."""

DISAGG_SITUATIONS: dict[str, str] = {
    "tail_preallocated": "a request got SWA slots for its tail only, and its head none",
    "whole_preallocated": "a request got SWA slots for all its tokens in a pool that takes no tail",
    "clipped": "a request was admitted that may want more new tokens than admission looks ahead",
    "fitted_with_prefix": "a request was admitted that would not have fitted without its cached prefix",
    "prefix_fallback": "behind a cached prefix a request got SWA slots for all its tokens",
    "window_beyond_prompt": "a request got slots whose window is longer than its prompt",
    "admitted_several": "one round of preallocation admitted several requests",
    "evicted_to_admit": "the tree evicted a node to make room for a preallocation",
    "full_exhausted": "a request had to wait for full slots alone",
    "swa_exhausted": "a request had to wait for SWA slots alone",
    "waited_behind_retracted": "a request had to wait while others were retracted",
    "outgrown": "a retracted request was aborted because even an empty node could no longer hold it",
    "rejected": "a request was rejected because even an empty node could not hold it",
    "transferred_in_parts": "the sender had written some pages of a prompt, not all",
    "decoded_behind_tail": "a request whose head has no SWA slots decoded its first token",
    "window_evicted_running": "window eviction freed SWA slots of a running request",
    "refused": "a decode step found no room",
    "retracted": "a running request was retracted",
    "retracted_inside_page": "a request was retracted whose last page was not full",
    "saved_partial_mask": "a retracted request's copy held the SWA rows of some tokens only",
    "loaded_partial_mask": "a copy was loaded into slots of which some only had an SWA slot",
    "row_skipped": "a copy held an SWA row that had no slot when it was loaded",
    "hole_outside_window": "a resumed token outside the window has an SWA slot and no row",
    "resumed_elsewhere": "a request's SWA slots began at another token after it resumed than before it was retracted",
    "resume_put_off": "a round did not resume a retracted request",
    "retried": "an aborted prompt arrived again",
    "aborted_queued": "a request was aborted that waited for slots",
    "aborted_transferring": "a request was aborted while its KV was being transferred",
    "aborted_waiting": "a request was aborted that waited to be started",
    "aborted_prebuilt": "a request was aborted in a prebuilt batch",
    "aborted_running": "a running request was aborted",
    "aborted_retracted": "a request was aborted on the CPU",
}
"""The same for disaggregated decode."""


SPEC_NODE_SITUATIONS: dict[str, str] = {
    "speculated_after_transfer": "a request whose prompt came from a sender speculated",
    "speculated_after_resume": "a request that was retracted and resumed speculated again",
    "tail_speculated": "a request with SWA slots for the tail of its prompt only speculated",
    "surplus_at_retract": "a request was retracted while it held slots ahead of what was committed",
    "admitted_beside_surplus": "a request was admitted while another held slots ahead of what was committed",
    "paired_with_prefix": "a request was admitted behind a prefix that the tree keeps by pairs of tokens",
}
"""The same for speculative decode on a decode node."""


_AS_BEFORE = (
    *("prefix_hit", "host_hit", "remapped_load_back", "partial_mask", "chunked", "shared_while_running", "node_split"),
    *("split_across_window", "tombstoned", "tombstone_recovered", "node_evicted", "host_evicted"),
    *("window_evicted_running", "deduplicated", "offload_in_flight", "freed_beside_flight", "forward_over_flight"),
    "retried",
)

SCHEDULER_SITUATIONS: dict[str, str] = {name: ENGINE_SITUATIONS[name] for name in _AS_BEFORE} | {
    "rejected": "a server refused a request because its pools could never hold it",
    "admission_refused": "a prefill round admitted nobody although a request waited",
    "granted_after_refusal": "a prefill round computed something after one that had admitted nobody",
    "admitted_several": "one prefill round admitted several requests",
    "admitted_beside_running": "a prefill round admitted a request while others ran",
    "chunk_cut_short": "a prompt was given a chunk smaller than chunks may be, and was not at its end",
    "chunk_continued": "a prompt went on after a chunk",
    "window_evicted_in_prefill": "a prefill round evicted the window of a request",
    "retracted": "a decode round retracted a request",
    "retracted_beside_chunk": "a decode round retracted a request while another was between two chunks",
    "readmitted": "a retracted request was admitted again",
    "outgrown": "a decode round gave up a request that the pools could not hold alone",
    "aborted_waiting": "a request was aborted that waited for slots",
    "aborted_chunked": "a request was aborted between two chunks",
}
"""The same with a scheduler."""


OVERLAP_SITUATIONS: dict[str, str] = {
    "stopped_in_flight": "a request ended with a token that stops it while the next batch already computed that token",
    "filled_in_flight": "a request reached its last token while the next batch already computed that token",
    "over_allocated_page": "the next batch had opened a new page for a request whose last token was just known",
    "left_out_finishing": "a decode batch left out a request whose last token was in flight",
    "aborted_in_flight": "a request was aborted while a batch with it was in flight",
    "aborted_chunk_in_flight": "a request was aborted while a chunk in the middle of its prompt was in flight",
    "retracted_in_flight": "a request was retracted while a batch with it was in flight",
    "retracted_aborted": "a request was retracted after it was aborted and before the abort took effect",
    "result_dropped": "the result of a batch came for a request that had left it",
    "number_reused": "the result of a batch came for a request that had left, and another had its number",
    "merged_in_flight": "a prefill batch joined requests that decode while it was in flight",
    "decoded_before_result": "a request decoded before the result of its prompt was processed",
    "stored_in_flight": "a chunk was stored while it was in flight",
    "prefilled_in_flight": "a prefill batch was launched while another one was in flight",
    "filtered_in_flight": "a decode batch went on with fewer requests than the one in flight",
}
"""The same with two batches in flight."""


class Witness:
    """Counts situations.

    Attributes:
        seen: situation -> how often it happened.
        now: index of the event being applied.
    """

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.now = 0
        self._saw_at: dict[str, int] = {}

    def saw(self, situation: str) -> None:
        """A situation happened at this event."""
        self.seen[situation] += 1
        self._saw_at[situation] = self.now

    def last(self, situation: str) -> int:
        """The event at which a situation happened last, -1 if it never did."""
        return self._saw_at.get(situation, -1)

    @property
    def decisive(self) -> tuple[str, ...]:
        """The situations of this event that make a divergence a separate bug."""
        return tuple(name for name in DECISIVE if self._saw_at.get(name) == self.now)
