"""Stages the tensors that are not in the host's memory, which the extension module does not read."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from ucp_checkpoint import _ucp
from ucp_checkpoint._saved_dict import Description
from ucp_checkpoint._saving import STAGING, Progress

_SECONDS_BETWEEN_LOOKS = 0.1


def event_of_devices() -> Any:
    """Of the work on GPUs that the state comes from."""
    if not torch.cuda.is_available():
        return None
    event = torch.cuda.Event()
    event.record()
    return event


def stage_devices(client: _ucp.SaveClient, progress: Progress, described: Description, event: Any) -> None:
    """Copies them when the segment is this rank's to fill. A failure is one of the save."""
    try:
        while not progress.has_reached(STAGING, _SECONDS_BETWEEN_LOOKS):
            pass
    except _ucp.Error:
        return
    problem = ""
    try:
        address, size = client.segment()
        segment = torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.uint8)
        if event is not None:
            event.synchronize()
        for entry, number_of_box, offset, count in client.layout()[0]:
            box = described.boxes[entry][number_of_box]
            if box.device.type != "cpu" and count > 0:
                segment[offset : offset + count].view(box.dtype).view(box.shape).copy_(box)
    except Exception as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        problem = f"its tensors on a device cannot be copied: {words}"
    client.finish_staging(progress.number, problem)
