"""The entry point by which torchrun finds its rendezvous backend `ucp`. It is imported by every torchrun, and while
torch's own modules are; the backend itself only by those that use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed.elastic.rendezvous.api import RendezvousHandler, RendezvousParameters


def handler() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """Makes the backend of a node."""
    return _backend


def _backend(parameters: RendezvousParameters) -> RendezvousHandler:
    from ucp_checkpoint._rendezvous import CoordinatedRendezvous

    return CoordinatedRendezvous(parameters)
