"""What one optimizer step consumes: roots of backward, tokens, clipped norms.

Tensors are kept detached and read when the step is written, so that a device is waited for once.
"""

from __future__ import annotations

import time
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Set

from seatrial.probe import tensors


class Clip(NamedTuple):
    """A clipping call: which parameters, their norm before it, and what it must be divided by."""

    parameters: FrozenSet[int]
    norm: Any
    scale: Any


class Root(NamedTuple):
    """A scalar that backward was called on, and the scaler's factor in it."""

    value: Any
    scale: Any


class Tally:
    """Collected since the last optimizer step that consumed it."""

    def __init__(self) -> None:
        self.roots: List[Root] = []
        self.backwards = 0
        self.clips: List[Clip] = []
        self.tokens: List[Any] = []
        self.supervised: List[Any] = []
        self.micro = 0
        self.skipped_before = 0
        self.last_loss: Optional[float] = None
        self.last_end = time.monotonic()

    def clear(self) -> None:
        """Forget what was collected: it was consumed, or its step was skipped."""
        self.roots.clear()
        self.clips.clear()
        self.tokens.clear()
        self.supervised.clear()
        self.backwards = 0
        self.micro = 0

    def loss(self) -> Optional[float]:
        """Sum of the roots with the scaler's factors taken out.

        Without a backward pass since the last step of this round (two optimizers that share one)
        it is that step's loss again.
        """
        if not self.backwards:
            return self.last_loss
        total: Optional[float] = None
        for root in self.roots:
            value = tensors.number(root.value)
            scale = tensors.number(root.scale)
            if value is not None:
                total = (total or 0.0) + (value / scale if scale else value)
        self.last_loss = total
        return total

    def norm(self, torch: Any, optimizer: Any, grad_scale: Any = None) -> Optional[float]:
        """Norm before clipping of what this optimizer will consume.

        Args:
            torch: the module.
            optimizer: whose parameters count.
            grad_scale: factor that the gradients still carry (fused optimizers under a scaler).
        """
        own = {id(p): p for group in optimizer.param_groups for p in group["params"]}
        parts: List[Optional[float]] = []
        covered: Set[int] = set()
        for clip in self.clips:
            if clip.parameters.isdisjoint(own) or not clip.parameters.isdisjoint(covered):
                continue
            covered |= clip.parameters
            value, scale = tensors.number(clip.norm), tensors.number(clip.scale)
            parts.append(value / scale if value is not None and scale else value)
        rest = [p.grad for key, p in own.items() if key not in covered and p.grad is not None]
        left = tensors.number(tensors.total_norm(torch, rest))
        scale = tensors.number(grad_scale)
        parts.append(left / scale if left is not None and scale else left)
        return tensors.root_sum_square(parts)

    def counted(self, parts: List[Any]) -> Optional[int]:
        """Sum of token counts; None when nothing was counted."""
        if not parts:
            return None
        return sum(int(part) for part in parts)

    def finished(self) -> None:
        """A step, an evaluation or a save ended: the next step's time counts from here."""
        self.last_end = time.monotonic()

    def seconds(self) -> float:
        """Seconds since the end of the last step (of the first batch for the first one)."""
        return time.monotonic() - self.last_end

    def values(self, torch: Any, optimizer: Any, grad_scale: Any = None) -> Dict[str, Any]:
        """Everything that a step event says about what the step consumed."""
        return {
            "loss_raw": self.loss(),
            "lr": [tensors.number(group.get("lr")) for group in optimizer.param_groups],
            "grad_norm": self.norm(torch, optimizer, grad_scale),
            "tokens": self.counted(self.tokens),
            "supervised_tokens": self.counted(self.supervised),
            "micro_batches": self.backwards,
        }
