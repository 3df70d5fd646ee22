"""load_gpu_peer.py FOLDER DEVICE: safetensors' way of loading a folder onto a GPU; prints how many seconds it took."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from safetensors import safe_open


def main() -> None:
    folder, device = Path(sys.argv[1]), sys.argv[2]
    torch.empty(1, device=device)  # Starts the GPU, which is slow only once.
    loaded: dict[str, torch.Tensor] = {}
    begin = time.perf_counter()
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt", device=device) as file:
            names = file.keys()
            for name in names:
                loaded[name] = file.get_tensor(name)
    torch.cuda.synchronize(device)
    print(time.perf_counter() - begin)


if __name__ == "__main__":
    main()
