"""Pickles put together by hand, instruction by instruction, that PyTorch did not mean to be read. See corpus.py."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator

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


def pickles(sentinel: str) -> Iterator[tuple[str, bytes]]:
    """Each is the data.pkl of an archive whose storage `0` has four floats. Nothing may make the file `sentinel`."""
    touch = f"touch {sentinel}"
    yield "plain", whole(tensor())
    for module, attribute in [
        ("os", "system"),
        ("posix", "system"),
        ("nt", "system"),
        ("subprocess", "getoutput"),
        ("builtins", "exec"),
        ("__builtin__", "eval"),
        ("torch.serialization", "os.system"),
        ("webbrowser", "open"),
        ("runpy", "run_path"),
        ("torch", "load"),
    ]:
        yield f"calls {module}.{attribute}", evil(module, attribute, touch)
    yield (
        "system through getattr",
        whole(call("__builtin__", "getattr", name("os", "path"), text("os")), tuple_of(text(touch)), b"R"),
    )
    yield (
        "system through map",
        whole(call("__builtin__", "list", call("__builtin__", "map", name("os", "system"), LIST + text(touch) + b"a"))),
    )
    yield "system as INST", whole(MARK, text(touch), b"ios\nsystem\n")
    yield "system as OBJ", whole(MARK, name("os", "system"), text(touch), b"o")
    yield "system as NEWOBJ", whole(name("os", "system"), tuple_of(text(touch)), b"\x81")
    yield "system as NEWOBJ_EX", whole(name("os", "system"), tuple_of(text(touch)), DICT, b"\x92")
    yield "system by STACK_GLOBAL", b"\x80\x04" + text("os") + text("system") + b"\x93" + tuple_of(text(touch)) + b"R."
    yield (
        "system in the state of a tensor",
        whole(
            call(
                "torch._tensor",
                "_rebuild_from_type_v2",
                name("os", "system"),
                name("torch", "Tensor"),
                tuple_of(text(touch)),
                DICT,
            )
        ),
    )
    yield (
        "system in a parameter's state",
        whole(
            call(
                "torch._utils",
                "_rebuild_parameter_with_state",
                tensor(),
                b"\x88",
                HOOKS,
                call("os", "system", text(touch)),
            )
        ),
    )
    for code in (
        b"\x82\x01",
        b"\x83\x01\x00",
        b"\x84\x01\x00\x00\x00",
        b"Ptext\n",
        b"S'abc'\n",
        b"Vabc\n",
        b"\x97",
        b"\x98",
        b"\xff",
        b"\x00",
    ):
        yield f"instruction {code[:1].hex()}", whole(code)

    for depth in (50, 150, 190, 250, 20_000, 200_000):
        yield f"{depth} lists", nested(LIST, b"a", depth)
        yield f"{depth} tuples", nested(b"", b"\x85", depth)
        yield f"{depth} dicts", nested(DICT + text("k"), b"s", depth)
    yield "laughs", laughs(30)
    yield "many laughs", laughs(200)
    yield "a list in itself", whole(LIST, b"q\x00", b"h\x00", b"a")
    yield "a dict in itself", whole(DICT, b"q\x00", text("k"), b"h\x00", b"s")
    yield "a tuple in itself through a list", whole(LIST, b"q\x00", b"h\x00", b"\x85", b"q\x01", b"a", b"h\x01")
    yield "an OrderedDict in itself", whole(HOOKS, b"q\x00", text("k"), b"h\x00", b"s")
    yield "an OrderedDict that is its own state", whole(HOOKS, b"q\x00", DICT, text("k"), b"h\x00", b"s", b"b")
    yield "changed after it was a key", whole(DICT, LIST, b"q\x00", b"\x85", NONE, b"s")

    for at in (0, 1, 255):
        yield f"remembers at {at}", whole(LIST, b"q" + bytes([at]), text("x"), b"a", b"h" + bytes([at]), b"\x86")
    yield "remembers far away", whole(LIST, b"r\xff\xff\xff\x7f", b"j\xff\xff\xff\x7f", b"\x86")
    yield "recalls what was never there", whole(b"h\x07")
    yield "remembers nothing", whole(b"q\x00", NONE)
    yield "remembers twice", whole(LIST, b"q\x00", DICT, b"q\x00", b"h\x00", b"\x87")
    yield "remembers a mark", whole(MARK, b"q\x00", NONE, b"t")

    for width, code in (
        (4, b"X"),
        (1, b"U"),
        (4, b"T"),
        (1, b"\x8a"),
        (4, b"\x8b"),
        (4, b"B"),
        (8, b"\x8d"),
        (8, b"\x8e"),
        (8, b"\x96"),
        (8, b"\x95"),
        (1, b"\x8c"),
        (1, b"C"),
    ):
        for count in (2 ** (8 * width) - 1, 2 ** (8 * width - 1), 40):
            yield f"{code.hex()} of {count}", whole(code, count.to_bytes(width, "little"), b"abc")
    yield "the same long text again and again", whole(text("x" * 60_000), b"q\x00", MARK, b"h\x00" * 20_000, b"l")
    yield "many values", whole(MARK, LIST * 300_000, b"l")
    yield "many marks", whole(MARK * 300_000)
    yield "many calls", whole(MARK, HOOKS * 20_000, b"t")

    for items in (0, 1, 2, 3, 5):
        yield f"{items} for SETITEMS", whole(DICT, MARK, b"".join(number(i) for i in range(items)), b"u")
        yield f"{items} for DICT", whole(MARK, b"".join(number(i) for i in range(items)), b"d")
        yield f"{items} for TUPLE3", whole(b"".join(number(i) for i in range(items)), b"\x87")
    for code in (b"a", b"e", b"s", b"u", b"b", b"R", b"\x81", b"Q", b"t", b"l", b"0", b"1", b"2", b"\x86", b"\x90"):
        yield f"{code.hex()} of nothing", whole(code)
        yield f"{code.hex()} of one", whole(NONE, code)
        yield f"{code.hex()} of two", whole(LIST, NONE, code)
        yield f"{code.hex()} after a mark", whole(LIST, MARK, code)
    yield "no end", HEAD + NONE
    yield "nothing", b""
    yield "two values", whole(NONE, NONE)
    yield "bytes behind the end", whole(NONE) + b"abc"
    yield "another pickle behind the end", whole(NONE) + whole(LIST)
    for protocol in (0, 1, 3, 4, 5, 6, 255):
        yield f"protocol {protocol}", b"\x80" + bytes([protocol]) + NONE + STOP
    yield "no protocol", NONE + STOP
    yield "protocol twice", HEAD + HEAD + NONE + STOP

    for keys in [
        (text("a"), text("a")),
        (number(1), number(1)),
        (b"\x88", number(1)),
        (number(0), b"G" + bytes(8)),
        (LIST, text("b")),
        (tuple_of(number(1)), tuple_of(number(1))),
        (b"U\x01a", text("a")),
    ]:
        yield f"the keys {keys}", whole(DICT, MARK, keys[0], NONE, keys[1], LIST, b"u")
    yield "a set of a list", whole(call("__builtin__", "set", LIST + MARK + LIST + b"e"))
    yield "a set", whole(call("__builtin__", "set", LIST + number(1) + b"a"))
    yield "an empty set", whole(b"\x8f")
    yield "lone surrogates", whole(text("\ud800"))
    yield "no UTF-8", whole(b"X\x02\x00\x00\x00\xff\xfe")
    yield "odd sizes", whole(call("torch", "Size", tuple_of(text("a"))))
    yield "sizes", whole(call("torch", "Size", tuple_of(number(3), number(-4))))
    yield "sizes of a list", whole(call("torch", "Size", LIST + number(3) + b"a"))
    yield "bytes", whole(call("_codecs", "encode", text("a\xff"), text("latin1")))
    yield "bytes beyond latin1", whole(call("_codecs", "encode", text("\u1234"), text("latin1")))
    yield "bytes as utf-8", whole(call("_codecs", "encode", text("\u1234"), text("utf-8")))
    yield "bytes in rot13", whole(call("_codecs", "encode", text("abc"), text("rot13")))
    yield "a device", whole(call("torch", "device", text("cpu")))
    yield "complex", whole(call("__builtin__", "complex", b"G" + bytes(8), b"G" + bytes(8)))
    yield "a bytearray", whole(call("__builtin__", "bytearray", number(10**12)))
    yield (
        "a bytearray of bytes",
        whole(call("__builtin__", "bytearray", call("_codecs", "encode", text("a"), text("latin1")))),
    )
    yield "an OrderedDict of pairs", whole(call("collections", "OrderedDict", LIST + tuple_of(text("a"), NONE) + b"a"))
    yield "an OrderedDict with a state", whole(HOOKS, text("a"), NONE, b"s", DICT, text("_metadata"), NONE, b"s", b"b")
    yield "two states", whole(HOOKS, DICT, b"b", DICT, text("x"), NONE, b"s", b"b")
    yield "a state for a dict", whole(DICT, DICT, b"b")
    yield "a counter", whole(call("collections", "Counter", DICT + text("a") + number(2) + b"s"))
    yield "items after a state", whole(HOOKS, DICT, b"b", text("a"), NONE, b"s")
    yield "dtypes", whole(MARK, name("torch", "float16"), name("torch", "float8_e4m3fn"), b"t")

    for sizes, strides, offset in [
        ((2, 2), (2, 1), 0),
        ((4,), (1,), 0),
        ((5,), (1,), 0),
        ((2,), (3,), 0),
        ((2,), (4,), 0),
        ((0,), (1,), 4),
        ((0,), (1,), 5),
        ((0, 2**62), (1, 1), 0),
        ((), (), 3),
        ((), (), 4),
        ((-1,), (1,), 0),
        ((2,), (-1,), 1),
        ((2, 2), (1,), 0),
        ((1,), (2**62,), 0),
        ((2**31, 2**31, 2**31), (0, 0, 0), 0),
        ((2**40,), (0,), 0),
        ((3,), (0,), 3),
        ((1,), (1,), -1),
        ((1,), (1,), 2**62),
        ((1,) * 64, (1,) * 64, 0),
        ((1,) * 65, (1,) * 65, 0),
        ((2,), (2**63 - 1,), 1),
    ]:
        yield f"a tensor {sizes} {strides} at {offset}", whole(tensor(storage(), offset, sizes, strides))
    for key, elements, kind in [
        ("0", 4, "FloatStorage"),
        ("0", 3, "FloatStorage"),
        ("0", 5, "FloatStorage"),
        ("0", 2, "DoubleStorage"),
        ("0", 16, "ByteStorage"),
        ("0", 16, "UntypedStorage"),
        ("0", 2**61, "FloatStorage"),
        ("0", -4, "FloatStorage"),
        ("1", 4, "FloatStorage"),
        ("../data/0", 4, "FloatStorage"),
        ("", 4, "FloatStorage"),
        ("0", 4, "QInt32Storage"),
        ("0", 4, "NoStorage"),
        ("0", 4, "Tensor"),
        ("0", 0, "FloatStorage"),
    ]:
        yield f"a storage {key!r} {elements} {kind}", whole(tensor(storage(key, elements, kind), 0, (1,), (1,)))
    yield "one storage, two sizes", whole(tensor(), tensor(storage("0", 2), 0, (1,), (1,)), b"\x86")
    yield "one storage, two types", whole(tensor(), tensor(storage("0", 4, "IntStorage"), 0, (1,), (1,)), b"\x86")
    yield "one storage, two places", whole(tensor(), tensor(storage("0", 4, "FloatStorage", "cuda:7")), b"\x86")
    yield "a storage on a GPU", whole(tensor(storage("0", 4, "FloatStorage", "cuda:7")))
    yield "a storage nowhere", whole(tensor(storage("0", 4, "FloatStorage", "moon:1")))
    yield "a storage on meta", whole(tensor(storage("0", 4, "FloatStorage", "meta")))
    yield "a storage alone", whole(storage())
    yield "a tensor of a tensor", whole(tensor(tensor()))
    yield "a persistent number", whole(number(7), b"Q")
    yield "a persistent text", whole(text("storage"), b"Q")
    yield "a persistent module", whole(tuple_of(text("module"), name("torch.nn", "Linear"), text("a"), text("b")), b"Q")
    yield (
        "a persistent storage of three parts",
        whole(tuple_of(text("storage"), name("torch", "FloatStorage"), text("0")), b"Q"),
    )
    yield (
        "a view of a storage",
        whole(
            tensor(
                tuple_of(text("storage"), name("torch", "FloatStorage"), text("0"), text("cpu"), number(4), NONE) + b"Q"
            )
        ),
    )
    for flags in ([b"\x88"], [number(1)], [DICT], [DICT + text("conj") + b"\x88s"], [DICT + text("neg") + b"\x88s"]):
        yield f"metadata {flags}", whole(tensor(storage(), 0, (2,), (1,), *flags))
    yield "few arguments", whole(call("torch._utils", "_rebuild_tensor_v2", storage()))
    yield (
        "an old tensor",
        whole(call("torch._utils", "_rebuild_tensor", storage(), number(1), tuple_of(number(3)), tuple_of(number(1)))),
    )
    for dtype, sizes in (
        ("float8_e5m2", 16),
        ("uint16", 8),
        ("float32", 4),
        ("int4", 8),
        ("complex32", 4),
        ("nothing", 4),
    ):
        yield (
            f"a tensor of {dtype}",
            whole(
                call(
                    "torch._utils",
                    "_rebuild_tensor_v3",
                    storage("0", 16, "UntypedStorage"),
                    number(0),
                    tuple_of(number(sizes)),
                    tuple_of(number(1)),
                    b"\x89",
                    HOOKS,
                    name("torch", dtype),
                )
            ),
        )
    yield "a parameter", whole(call("torch._utils", "_rebuild_parameter", tensor(), b"\x88", HOOKS))
    yield "a parameter of None", whole(call("torch._utils", "_rebuild_parameter", NONE, b"\x88", HOOKS))
    yield (
        "a parameter of a parameter",
        whole(
            call(
                "torch._utils",
                "_rebuild_parameter",
                call("torch._utils", "_rebuild_parameter", tensor(), b"\x88", HOOKS),
                b"\x89",
                HOOKS,
            )
        ),
    )
    yield (
        "a parameter with a state",
        whole(
            call(
                "torch._utils",
                "_rebuild_parameter_with_state",
                tensor(),
                b"\x88",
                HOOKS,
                DICT + text("partition_dim") + number(1) + b"s",
            )
        ),
    )
    yield (
        "attributes",
        whole(
            call(
                "torch._tensor",
                "_rebuild_from_type_v2",
                name("torch._utils", "_rebuild_tensor_v2"),
                name("torch", "Tensor"),
                tuple_of(storage(), number(0), tuple_of(number(4)), tuple_of(number(1)), b"\x89", HOOKS),
                DICT + text("a") + NONE + b"s",
            )
        ),
    )
    yield (
        "a device's tensor",
        whole(
            call(
                "torch._utils",
                "_rebuild_device_tensor_from_cpu_tensor",
                tensor(),
                name("torch", "float32"),
                text("cpu"),
                b"\x88",
            )
        ),
    )
    yield (
        "a device's tensor of another dtype",
        whole(
            call(
                "torch._utils",
                "_rebuild_device_tensor_from_cpu_tensor",
                tensor(),
                name("torch", "float64"),
                text("cpu"),
                b"\x89",
            )
        ),
    )
    yield (
        "a tensor of meta",
        whole(
            call(
                "torch._utils",
                "_rebuild_meta_tensor_no_storage",
                name("torch", "float32"),
                tuple_of(number(2)),
                tuple_of(number(1)),
                b"\x89",
            )
        ),
    )
    yield "a tensor class called", whole(call("torch", "FloatTensor", number(2)))
    yield (
        "a tensor class with a state",
        whole(
            name("torch", "FloatTensor"),
            b")",
            b"\x81",
            tuple_of(storage(), number(0), tuple_of(number(2)), tuple_of(number(1))),
            b"b",
        ),
    )
    yield (
        "a state for a tensor",
        whole(tensor(), tuple_of(storage(), number(1), tuple_of(number(2)), tuple_of(number(1))), b"b"),
    )
    yield "a new parameter", whole(name("torch.nn.parameter", "Parameter"), tuple_of(tensor()), b"\x81")
    yield "a key that is a tensor", whole(DICT, tensor(), NONE, b"s")
