"""Stages the tensors that are not in the host's memory.

Those of NVIDIA's GPUs come through a stream of the project's own into pinned memory. Other devices' are copied by
PyTorch.
"""

from __future__ import annotations

import ctypes
import warnings
from typing import Any

import torch

from ucp_checkpoint import _ucp
from ucp_checkpoint._saved_dict import Description
from ucp_checkpoint._saving import Progress

_SECONDS_BETWEEN_LOOKS = 0.1


def event_of_devices() -> Any:
    """Of the work on GPUs that the state comes from."""
    if not torch.cuda.is_available():
        return None
    event = torch.cuda.Event()
    event.record()
    return event


class DeviceStages:
    """The ways from devices to one client's segment.

    `pins` the segment, which is worth its time where it is filled more than once; else `threads` copy there.
    `bus_share`: the part of the time in which the bus is used.
    """

    def __init__(self, client: _ucp.SaveClient, *, pins: bool, threads: int, bus_share: float = 1.0) -> None:
        self._client = client
        self._pins, self._threads, self._share = pins, threads, bus_share
        self._ways: dict[torch.device, _ucp.DeviceStaging | None] = {}  # None: by PyTorch.

    def prepare(self, described: Description) -> None:
        """Opens the devices, and pins the segment, which takes a while."""
        for device, _ in self._boxes(described):
            self._way(device)

    def stage(self, progress: Progress, described: Description, event: Any) -> None:
        """Copies them when the segment is this rank's to fill. A failure is one of the save."""
        problem, wave, waves = "", 0, 1
        while wave < waves and not problem:
            try:
                while not progress.has_reached_wave(wave, _SECONDS_BETWEEN_LOOKS):
                    pass
            except _ucp.Error:
                return
            waves = self._client.layout()[2]
            try:
                if event is not None:
                    event.synchronize()
                for device, boxes in self._boxes(described, wave):
                    self._stage(device, boxes)
            except Exception as error:
                words = str(error).splitlines()[0] if str(error) else type(error).__name__
                problem = f"its tensors on a device cannot be copied: {words}"
            self._client.finish_staging(progress.number, problem)
            wave += 1

    def _boxes(
        self, described: Description, wave: int | None = None
    ) -> list[tuple[torch.device, list[tuple[torch.Tensor, int]]]]:
        """This rank's to stage in a wave or in any, by device, each with its place in the segment."""
        found: dict[torch.device, list[tuple[torch.Tensor, int]]] = {}
        for entry, number_of_box, offset, count, wave_of_box in self._client.layout()[0]:
            box = described.boxes[entry][number_of_box]
            if box.device.type != "cpu" and count > 0 and wave in (None, wave_of_box):
                found.setdefault(box.device, []).append((box, offset))
        return list(found.items())

    def _way(self, device: torch.device) -> _ucp.DeviceStaging | None:
        if device not in self._ways:
            self._ways[device] = self._open(device)
        return self._ways[device]

    def _open(self, device: torch.device) -> _ucp.DeviceStaging | None:
        if device.type != "cuda" or torch.version.hip is not None:
            return None
        try:
            way = _ucp.DeviceStaging(str(device), self._pins, self._threads)
            way.prepare(self._client)
        except _ucp.Error as error:
            warnings.warn(f"tensors on {device} are copied by PyTorch, which takes longer: {error}", stacklevel=2)
            return None
        return way

    def _stage(self, device: torch.device, boxes: list[tuple[torch.Tensor, int]]) -> None:
        way = self._way(device)
        if way is not None:
            told = [(box.data_ptr(), box.element_size(), tuple(box.shape), box.stride(), at) for box, at in boxes]
            boxes = [boxes[number] for number in way.stage(self._client, told, self._share)]
        if not boxes:
            return
        address, size = self._client.segment()
        segment = torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.uint8)
        for box, at in boxes:
            segment[at : at + box.nbytes].view(box.dtype).view(box.shape).copy_(box)
