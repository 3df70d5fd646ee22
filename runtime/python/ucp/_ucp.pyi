"""The extension module: what needs C++."""

version: str

class Error(Exception):
    """What went wrong, in one sentence; `code` says of which kind.

    "usage", "spec", "bad-data", "unsupported", "io" or "cancelled".
    """

    code: str

class Source:
    """What a source is, as the programs' options say it."""

    path: str
    spec: str
    config: str
    set: list[str]
    unused: list[str]
    drop_states: list[str]
    prefer_rank: str
    def __init__(self) -> None: ...

def inspect(source: Source, tensor: str) -> str:
    """JSON, as `ucprun inspect --json` prints it."""
