"""Parts of pickles, put together by hand, instruction by instruction."""

from __future__ import annotations

import pickle
import struct

HEAD, STOP = b"\x80\x02", b"."
NONE, MARK, TUPLE, LIST, DICT = b"N", b"(", b"t", b"]", b"}"


def text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def name(module: str, attribute: str) -> bytes:
    return b"c" + f"{module}\n{attribute}\n".encode()


def number(value: int) -> bytes:
    return pickle.dumps(value, 2)[2:-1]


def tuple_of(*items: bytes) -> bytes:
    return MARK + b"".join(items) + TUPLE


def call(module: str, attribute: str, *arguments: bytes) -> bytes:
    return name(module, attribute) + tuple_of(*arguments) + b"R"


def storage(key: str = "0", elements: int = 4, kind: str = "FloatStorage", place: str = "cpu") -> bytes:
    return tuple_of(text("storage"), name("torch", kind), text(key), text(place), number(elements)) + b"Q"


HOOKS = call("collections", "OrderedDict")


def tensor(
    data: bytes = storage(),
    offset: int = 0,
    sizes: tuple[int, ...] = (2, 2),
    strides: tuple[int, ...] = (2, 1),
    *more: bytes,
) -> bytes:
    return call(
        "torch._utils",
        "_rebuild_tensor_v2",
        data,
        number(offset),
        tuple_of(*map(number, sizes)),
        tuple_of(*map(number, strides)),
        b"\x89",
        HOOKS,
        *more,
    )


def whole(*parts: bytes) -> bytes:
    return HEAD + b"".join(parts) + STOP


def nested(opening: bytes, closing: bytes, depth: int) -> bytes:
    return whole(opening * depth, NONE, closing * depth)


def laughs(doublings: int) -> bytes:
    """A list that holds the one before it twice, and so on: 2**doublings leaves, few bytes."""
    steps = [LIST + b"q\x00"]
    for i in range(doublings):
        steps.append(LIST + b"q" + bytes([i + 1]) + MARK + b"h" + bytes([i]) + b"h" + bytes([i]) + b"e")
    return whole(MARK, *steps, b"l")


def evil(module: str, attribute: str, argument: str) -> bytes:
    return whole(call(module, attribute, text(argument)))
