"""A release's own code for speculative decode, and how this release wants it to be called.

Two ways to give slots to a draft. V1 (up to 0.5.12.post1): ``EAGLEWorker`` takes a draft's slots, writes them to the
row and restores the allocator at once; ``EagleVerifyInput`` takes a slot a node and frees what is rejected. V2: rows
grow ahead of what is committed, and accepted KV is moved to the front. DFLASH (from 0.5.14) is V2 with a preparation of
its own.
"""

from __future__ import annotations

import dis
import importlib
import inspect
from types import SimpleNamespace
from typing import Any

import torch

from ....models.config import Config
from ..base import TargetError
from ..speculative import SpecRules
from .engine_release import EngineRelease
from .leaves import Leaf, install
from .spec_stand_ins import VERDICT, spec_batch_class, spec_leaves, uncompiled

__all__ = ["SpecRelease"]

_SPECULATIVE = "sglang.srt.speculative"


def _module(name: str) -> Any:
    """A module of the release, or None if it has no such module."""
    try:
        return importlib.import_module(f"{_SPECULATIVE}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{_SPECULATIVE}.{name}":
            raise
        return None


class SpecRelease:
    """The modules of the loaded release that speculative decode needs.

    Attributes:
        engine: the release's code for requests.
        replacements: its replaced kernels.
    """

    def __init__(self, engine: EngineRelease) -> None:
        self.engine = engine
        with uncompiled():
            self._info, self._mixins, self._utils, self._spec_utils, self._base, self._common = map(
                _module,
                ("eagle_info", "eagle_info_v2", "eagle_utils", "spec_utils", "base_spec_worker", "eagle_worker_common"),
            )
            self._worker_v1, self._worker_v2 = _module("eagle_worker"), _module("eagle_worker_v2")
            self._dflash = _module("dflash_info_v2")
            self._algorithms = _module("spec_info").SpeculativeAlgorithm
        self.replacements: tuple[Leaf, ...] = install(spec_leaves())
        self._batch_class = spec_batch_class(engine.batch_class)
        self._own_prepare = getattr(self._utils, "eagle_prepare_for_decode", None)

    def batch(self, config: Config, tree: Any, entries: list[Any], lens: list[int]) -> Any:
        """A step of requests that have KV for so many tokens, whatever the scheduler knows of that."""
        name = "DFLASH" if config.spec_version == "dflash" else "EAGLE"
        return self._batch_class(tree, entries, lens, self._algorithms[name], config.spec_ahead)

    def rules(self, config: Config) -> SpecRules:
        """How this release counts, read off its preparation.

        EAGLE counts in whole pages from 0.5.16, DFLASH from 0.5.19 (PR 31616). Up to 0.5.14 EAGLE's preparation counts
        the bonus as committed, and the commit takes that back.
        """
        if config.spec_version == "dflash":
            prepare = self._dflash.DFlashDraftInputV2.prepare_for_decode
        else:
            prepare = self._own_prepare or self._info.EagleDraftInput.prepare_for_decode
        steps = list(dis.get_instructions(prepare))
        return SpecRules(
            whole_pages=any(it.argval == "page_aligned_decode_alloc_lens" or it.argrepr == "//" for it in steps),
            restores_mapping=False,
            claims_bonus=any(it.opname == "STORE_ATTR" and it.argval == "kv_committed_len" for it in steps),
        )

    def check(self, config: Config) -> None:
        """Raise TargetError unless this release decodes speculatively as `config` says."""
        if config.spec_version == "v1" and self._worker_v1 is None:
            raise TargetError("no worker of this release takes a draft's slots back at once (V1; up to 0.5.12.post1)")
        if config.spec_version == "dflash" and self._dflash is None:
            raise TargetError("this release has no DFLASH under V2 (it came with 0.5.14)")
        if (
            config.page_size > 1
            and config.spec_topk > 1
            and config.spec_version == "v2"
            and self._worker_v1 is not None
        ):
            raise TargetError("this release has no trees with pages under V2 (they came with 0.5.13)")

    # V2

    def prepare_v2(self, batch: Any, config: Config) -> None:
        """Evict windows and grow the rows."""
        if config.spec_version == "dflash":
            self._dflash.DFlashDraftInputV2.create_idle_input("cpu").prepare_for_decode(batch)
        elif self._own_prepare is not None:
            self._own_prepare(batch)
        else:
            self._info.EagleDraftInput.prepare_for_decode(batch.spec_info, batch)

    def draft_v2(self, batch: Any, config: Config, draft_pool: Any) -> torch.Tensor:
        """Where the draft goes: ``[requests * topk * steps]`` full locs. DFLASH reads the same positions of the row."""
        runner = SimpleNamespace(
            spec_algorithm=batch.spec_algorithm,
            token_to_kv_pool=draft_pool,
            model_config=SimpleNamespace(model_is_mrope=False),
        )
        arguments = (batch.spec_info, batch.req_to_token_pool, batch, None, runner, config.spec_topk, config.spec_steps)
        if hasattr(self._common, "prepare_for_draft"):
            self._common.prepare_for_draft(*arguments)
        elif hasattr(getattr(self._base, "EagleDraftWorkerBase", None), "prepare_for_draft"):
            self._base.EagleDraftWorkerBase.prepare_for_draft(None, *arguments)
        else:
            self._mixins.EagleDraftInputV2Mixin.prepare_for_v2_draft(*arguments)
        locs: torch.Tensor = batch.out_cache_loc
        return locs

    def verify_v2(self, batch: Any, config: Config) -> torch.Tensor:
        """Where the nodes go: ``[requests * nodes]`` full locs."""
        runner = SimpleNamespace(
            spec_algorithm=batch.spec_algorithm,
            decode_cuda_graph_runner=None,
            graph_runner=None,
            attn_backend=SimpleNamespace(init_forward_metadata=lambda *_what: None),
            model_config=SimpleNamespace(model_is_mrope=False),
        )
        worker = SimpleNamespace(model_runner=runner)
        nodes = self._nodes(batch, config)
        if hasattr(self._utils, "eagle_prepare_for_verify"):
            self._utils.eagle_prepare_for_verify(nodes, batch.req_to_token_pool, batch, worker)
        else:
            self._mixins.EagleVerifyInputV2Mixin.prepare_for_v2_verify(nodes, batch.req_to_token_pool, batch, worker)
        locs: torch.Tensor = batch.out_cache_loc
        return locs

    def accept_v2(
        self, batch: Any, config: Config, accepted: torch.Tensor, counts: torch.Tensor, allocator: Any
    ) -> None:
        """Move accepted KV of a tree to the front. A chain's is there already.

        Args:
            batch: the step, as `verify_v2` left it.
            config: the shape of the cache.
            accepted: int ``[requests, steps + 1]``, indices into the batch's nodes, -1 for none.
            counts: int ``[requests]``, accepted nodes.
            allocator: the release's allocator.
        """
        if config.spec_topk == 1:
            return
        if hasattr(self._spec_utils, "move_accept_tokens_to_target_kvcache"):
            self._spec_utils.move_accept_tokens_to_target_kvcache(batch, accepted, counts - 1, allocator)
            return
        worker = SimpleNamespace(
            device="cpu",
            speculative_num_draft_tokens=config.spec_draft_tokens,
            req_to_token_pool=batch.req_to_token_pool,
            token_to_kv_pool_allocator=allocator,
        )
        owner = self._worker_v2.EAGLEWorkerV2
        move = getattr(owner, "move_accept_tokens_to_target_kvcache", None)
        move = move or owner.move_accepted_tokens_to_target_kvcache
        # Up to 0.5.12.post1 it has no caller: servers send trees to V1. 0.5.11's counts the bonus among the accepted.
        bonus = 0 if "num_accepted_drafts" in inspect.signature(move).parameters else 1
        move(worker, batch, accepted, counts - bonus)

    # V1

    def draft_v1(self, batch: Any, config: Config, draft_pool: Any, allocator: Any) -> torch.Tensor:
        """Evict windows, take a draft's slots, write them to the rows and give them back; locs as in `draft_v2`."""
        worker = SimpleNamespace(
            page_size=config.page_size,
            topk=config.spec_topk,
            speculative_num_steps=config.spec_steps,
            device="cpu",
            token_to_kv_pool_allocator=allocator,
            draft_model_runner=SimpleNamespace(token_to_kv_pool=draft_pool),
            num_new_pages_per_topk=torch.empty(()),
            extend_lens=torch.empty(()),
        )
        self._worker_v1.EAGLEWorker._draft_preprocess_decode(worker, batch)
        locs: torch.Tensor = batch.out_cache_loc
        return locs

    def verify_v1(self, batch: Any, config: Config) -> None:
        """Take a slot a node and write the rows."""
        batch.spec_info = self._nodes(batch, config)
        batch.spec_info.prepare_for_verify(batch, config.page_size)

    def accept_v1(self, batch: Any, config: Config, paths: Any, tokens: Any, allocator: Any) -> None:
        """Keep accepted nodes, free the others, move KV where a tree meets pages, and commit."""
        batch.spec_info.hidden_states = torch.zeros(len(paths) * config.spec_draft_tokens, 1)
        VERDICT.say(paths, tokens, config.spec_draft_tokens)
        logits = SimpleNamespace(next_token_logits=torch.zeros(len(paths) * config.spec_draft_tokens, 1))
        batch.spec_info.verify(batch, logits, allocator, config.page_size)

    def _nodes(self, batch: Any, config: Config) -> Any:
        count = len(batch.reqs)
        nodes = torch.arange(count * config.spec_draft_tokens)
        return self._info.EagleVerifyInput(
            draft_token=torch.zeros_like(nodes),
            custom_mask=None,
            positions=None,
            retrieve_index=nodes.view(count, config.spec_draft_tokens),
            retrieve_next_token=None,
            retrieve_next_sibling=None,
            retrieve_cum_len=None,
            spec_steps=config.spec_steps,
            topk=config.spec_topk,
            draft_token_num=config.spec_draft_tokens,
            capture_hidden_mode=None,
            seq_lens_sum=int(batch.seq_lens.sum()),
            seq_lens_cpu=batch.seq_lens_cpu,
        )
