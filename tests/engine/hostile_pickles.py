"""Pickles that PyTorch did not mean to be read: what they call, how they are built, what they hold. See corpus.py."""

from __future__ import annotations

from collections.abc import Iterator

from hostile_tensors import tensors
from pickle_parts import (
    DICT,
    HEAD,
    HOOKS,
    LIST,
    MARK,
    NONE,
    STOP,
    call,
    evil,
    laughs,
    name,
    nested,
    number,
    tensor,
    text,
    tuple_of,
    whole,
)


def calls(sentinel: str) -> Iterator[tuple[str, bytes]]:
    """Each would make the file `sentinel`, were it obeyed."""
    touch = f"touch {sentinel}"
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


def structure() -> Iterator[tuple[str, bytes]]:
    """Unusual instructions, depth, memory tricks, counts that are not true, and ends that are none."""
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


def values() -> Iterator[tuple[str, bytes]]:
    """Keys that are equal, and objects that are not tensors."""
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


def pickles(sentinel: str) -> Iterator[tuple[str, bytes]]:
    """Each is the data.pkl of an archive whose storage `0` has four floats. Nothing may make the file `sentinel`."""
    yield "plain", whole(tensor())
    yield from calls(sentinel)
    yield from structure()
    yield from values()
    yield from tensors()
