"""Memory that a load fills, as tensors of PyTorch or arrays of numpy. Either is imported when it is asked for."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from ucp_checkpoint._failure import failure

if TYPE_CHECKING:
    import torch

# Dtypes for which numpy itself has no name; the package ml_dtypes has some of them.
_BEYOND_NUMPY = {
    "bfloat16": "bfloat16",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "float8_e4m3fnuz": "float8_e4m3fnuz",
    "float8_e5m2fnuz": "float8_e5m2fnuz",
}


class Framework(Protocol):
    """Makes memory, and shows pieces of it as tensors."""

    @property
    def device(self) -> str | None:
        """Whose memory it is, "cuda:0"; None: the host's."""

    def memory(self, size: int) -> Any:
        """So many bytes, uninitialised."""

    def settle(self) -> None:
        """Until nobody works on them any more."""

    def address(self, memory: Any) -> int:
        """Where they are."""

    def check(self, dtype: str, tensor: str) -> None:
        """Raises where there is no such dtype."""

    def piece(self, memory: Any, begin: int, elements: int, dtype: str) -> Any:
        """The elements from byte `begin` on, as a view in one dimension."""

    def join(self, pieces: list[Any]) -> Any:
        """One behind the other; a copy."""

    def finish(self, piece: Any, shape: list[int] | None, own: bool) -> Any:
        """The tensor, as a copy if it has to own its memory."""


def device_name(device: torch.device) -> str | None:
    """As `_ucp.load` has it; None: the host."""
    import torch

    if device.type == "cpu":
        return None
    if device.type != "cuda":
        raise failure("unsupported", f'device="{device}": only memory of cpu or cuda devices is filled')
    index = device.index
    if index is None:
        index = torch.cuda.current_device() if torch.cuda.is_available() else 0
    return f"cuda:{index}"


def settle(devices: Iterable[str]) -> None:
    """Until nobody works on the memory of these devices any more."""
    import torch

    for device in sorted(set(devices)):
        try:
            torch.cuda.synchronize(device)
        except RuntimeError as error:
            raise failure("io", f"{device} does not finish what it works on: {str(error).splitlines()[0]}") from None


class Torch:
    """Tensors of PyTorch on a device."""

    device: str | None

    def __init__(self, device: Any) -> None:
        import torch

        self._torch = torch
        try:
            self._device = torch.device(device)
        except TypeError:
            raise failure("usage", f'device is a name such as "cpu" or "cuda:1", not {device!a}') from None
        except RuntimeError as error:
            raise failure("usage", f"`{device}` is not a device: {str(error).splitlines()[0]}") from None
        if self._device.type == "cuda" and not torch.cuda.is_available():
            why = "no GPU that it can use" if torch.version.cuda else "no CUDA in it"
            raise failure("unsupported", f'device="{device}": PyTorch {torch.__version__} finds {why}')
        if self._device.type == "meta":
            raise failure("usage", 'device="meta": tensors there have no memory to load into')
        try:
            torch.empty(1, device=self._device)
        except Exception as error:  # Whatever a backend raises that is not there.
            why = str(error).splitlines()[0].split(". ")[0] if str(error) else type(error).__name__
            raise failure(
                "unsupported", f'device="{device}": PyTorch {torch.__version__} cannot use it: {why}'
            ) from None
        self.device = device_name(self._device)

    def memory(self, size: int) -> Any:
        return self._torch.empty(size, dtype=self._torch.uint8, device=self._device)

    def settle(self) -> None:
        settle([self.device] if self.device is not None else [])

    def address(self, memory: Any) -> int:
        return int(memory.data_ptr())

    def check(self, dtype: str, tensor: str) -> None:
        if not hasattr(self._torch, dtype):
            raise failure("unsupported", f"tensor `{tensor}` is {dtype}, which PyTorch {self._torch.__version__} lacks")

    def piece(self, memory: Any, begin: int, elements: int, dtype: str) -> Any:
        kind = getattr(self._torch, dtype)
        return memory[begin : begin + elements * kind.itemsize].view(kind)

    def join(self, pieces: list[Any]) -> Any:
        return self._torch.cat(pieces)

    def finish(self, piece: Any, shape: list[int] | None, own: bool) -> Any:
        shaped = piece if shape is None else piece.view(shape)
        return shaped.clone() if own else shaped


class Numpy:
    """Arrays of numpy."""

    def __init__(self, device: object) -> None:
        import numpy

        self.device: str | None = None
        if str(device) != "cpu":
            raise failure("usage", f'device="{device}": arrays of numpy are in the host\'s memory')
        self._numpy = numpy

    def _kind(self, dtype: str) -> Any:
        if dtype in _BEYOND_NUMPY:
            import ml_dtypes

            return self._numpy.dtype(getattr(ml_dtypes, _BEYOND_NUMPY[dtype]))
        return self._numpy.dtype(dtype)

    def memory(self, size: int) -> Any:
        return self._numpy.empty(size, dtype=self._numpy.uint8)

    def settle(self) -> None:
        pass

    def address(self, memory: Any) -> int:
        return int(memory.ctypes.data)

    def check(self, dtype: str, tensor: str) -> None:
        if dtype in _BEYOND_NUMPY and importlib.util.find_spec("ml_dtypes") is None:
            raise failure(
                "unsupported",
                f"tensor `{tensor}` is {dtype}, which numpy does not have; install ml_dtypes, choose other states, or "
                'load with framework="torch"',
            )

    def piece(self, memory: Any, begin: int, elements: int, dtype: str) -> Any:
        kind = self._kind(dtype)
        return memory[begin : begin + elements * kind.itemsize].view(kind)

    def join(self, pieces: list[Any]) -> Any:
        return self._numpy.concatenate(pieces)

    def finish(self, piece: Any, shape: list[int] | None, own: bool) -> Any:
        shaped = piece if shape is None else piece.reshape(shape)
        return shaped.copy() if own else shaped


def need_torch(what: str) -> None:
    """Refuses `what`, which needs PyTorch, where there is no PyTorch."""
    if importlib.util.find_spec("torch") is None:
        raise failure("usage", f"{what}, which this Python does not have")


def framework_of(name: str | None, device: object) -> Framework:
    """The one that is asked for; by default PyTorch, or numpy where there is no PyTorch."""
    if name is None:
        name = next((one for one in ("torch", "numpy") if importlib.util.find_spec(one) is not None), None)
        if name is None:
            raise failure("usage", "this Python has neither PyTorch nor numpy, whose arrays are what is loaded")
    if name not in ("torch", "numpy"):
        raise failure("usage", f'framework is "torch" or "numpy", not {name!r}')
    if importlib.util.find_spec(name) is None:
        raise failure("usage", f'framework="{name}": this Python has no {name}')
    return Torch(device) if name == "torch" else Numpy(device)
