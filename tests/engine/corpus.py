"""Files that PyTorch did not mean to be read: the pickles of hostile_pickles.py, archives whose parts contradict
each other, and real files damaged at random, the same for the same seed. See test_containers.py."""

from __future__ import annotations

import io
import itertools
import pickle
import pickletools
import random
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch

from hostile_pickles import pickles
from pickle_parts import LIST, NONE, evil, name, number, tensor, text, tuple_of, whole

FOUR = struct.pack("<4f", 1.0, 2.0, 3.0, 4.0)

# Damage to an archive's own records: the name of a field, its place, and its wrong value.
END = b"PK\x05\x06"
ENTRY_FIELDS = [  # Of a record's header, and two bytes later of its entry in the directory.
    ("flags", 6, b"\x01\x00"),
    ("descriptor flag", 6, b"\x08\x00"),
    ("method", 8, b"\x08\x00"),
    ("checksum", 14, b"\1\2\3\4"),
    ("stored size", 18, b"\1\0\0\0"),
    ("size", 22, b"\1\0\0\0"),
    ("huge size", 22, b"\xff\xff\xff\x7f"),
    ("64-bit size", 22, b"\xff\xff\xff\xff"),
    ("name's length", 26, b"\x01\x00"),
    ("extra length", 28, b"\x10\x00"),
    ("huge extra length", 28, b"\xff\xff"),
]
CENTRAL_FIELDS = [
    ("comment's length", 32, b"\1\0"),
    ("disk", 34, b"\1\0"),
    ("offset", 42, b"\1\0\0\0"),
    ("far offset", 42, b"\xff\xff\xff\x7f"),
    ("64-bit offset", 42, b"\xff\xff\xff\xff"),
]
END_FIELDS = [
    ("count", 10, b"\1\0"),
    ("huge count", 10, b"\xff\xff"),
    ("counts", 8, b"\2\0\2\0"),
    ("size", 12, b"\1\0\0\0"),
    ("offset", 16, b"\1\0\0\0"),
    ("far offset", 16, b"\xff\xff\xff\x7f"),
    ("comment's length", 20, b"\3\0"),
]


def archive(
    data: bytes,
    *,
    root: str = "archive",
    compression: int = zipfile.ZIP_STORED,
    order: str = "little",
    **records: bytes | None,
) -> bytes:
    """The records of an archive that torch reads; one that is None is left out, others are added or replaced."""
    held: dict[str, bytes | None] = {"data.pkl": data, "byteorder": order.encode(), "data/0": FOUR, "version": b"3\n"}
    held |= {key.replace("__", "/"): value for key, value in records.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as opened:
        for key, value in held.items():
            if value is not None:
                opened.writestr(zipfile.ZipInfo(f"{root}/{key}"), value, compression)
    return buffer.getvalue()


def twice(data: bytes, key: str, value: bytes) -> bytes:
    buffer = io.BytesIO(archive(data))
    with zipfile.ZipFile(buffer, "a") as opened:
        opened.writestr(zipfile.ZipInfo(f"archive/{key}"), value)
    return buffer.getvalue()


def patched(data: bytes, signature: bytes, at: int, value: bytes, last: bool = False) -> bytes:
    place = (data.rfind(signature) if last else data.find(signature)) + at
    return data[:place] + value + data[place + len(value) :]


def archives() -> Iterator[tuple[str, bytes]]:
    """Files whose parts contradict each other, or are not as PyTorch writes them."""
    good = archive(whole(tensor()))
    yield "good", good
    yield "empty", b""
    yield "no version", archive(whole(tensor()), version=None)
    yield "no pickle", archive(b"", **{"data.pkl": None})
    yield "no storage", archive(whole(tensor()), data__0=None)
    yield "a short storage", archive(whole(tensor()), data__0=FOUR[:-1])
    yield "a long storage", archive(whole(tensor()), data__0=FOUR + b"x")
    yield "another record", archive(whole(tensor()), extra=b"abc")
    yield "another root", archive(whole(tensor()), root="größe")
    yield "no root", archive(whole(tensor())).replace(b"archive/", b"archive_")
    yield "a deep root", archive(whole(tensor()), root="a/b")
    yield "a root above", archive(whole(tensor()), root="..")
    yield "deflated", archive(whole(tensor()), compression=zipfile.ZIP_DEFLATED)
    for order in ("big", "middle", "", "LITTLE"):
        yield f"byte order {order!r}", archive(whole(tensor()), order=order)
    for key, value in (
        ("data.pkl", whole(NONE)),
        ("data/0", FOUR[::-1]),
        ("byteorder", b"big"),
        ("version", b"9\n"),
        ("data/1", FOUR),
    ):
        yield f"{key} once more", twice(whole(tensor()), key, value)
    for words, signature, shift, fields, which in (
        ("local", b"PK\x03\x04", 0, ENTRY_FIELDS, (False, True)),
        ("central", b"PK\x01\x02", 2, ENTRY_FIELDS, (False, True)),
        ("central", b"PK\x01\x02", 0, CENTRAL_FIELDS, (False,)),
        ("end's", END, 0, END_FIELDS, (False,)),
    ):
        for (field, at, value), last in itertools.product(fields, which):
            label = f"the {'last' if last else 'first'} {words} {field}"
            yield label, patched(good, signature, at + shift, value, last)
    yield "a comment", patched(good, END, 20, b"\3\0") + b"abc"
    yield "bytes in front", b"abc" + good
    yield "bytes behind", good + b"abc"
    yield "two archives", good + archive(whole(LIST))
    yield "a name that differs in front", good.replace(b"archive/data.pkl", b"archive/data.pkm", 1)
    for cut in range(1, len(good), len(good) // 24):
        yield f"cut at {cut}", good[:cut]
    yield "a checksum that is not true", patched(good, whole(tensor())[:8], 1, b"\3")


def objects() -> list[Any]:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    marked = torch.tensor([1.0, 2.0])
    marked.partition = 3
    model = torch.nn.Linear(3, 2)
    return [
        {
            "module": OrderedDict(model.state_dict()),
            "steps": 7,
            "name": "größe",
            "rate": 1e-4,
            "none": None,
            "shapes": [OrderedDict(a=torch.Size([2, 3]))],
            "flags": (True, False),
            "big": 2**70,
            "size": torch.Size([]),
        },
        {
            "base": base,
            "view": base[1:3, ::2],
            "turned": base.t(),
            "one": base[0, 0],
            "empty": base[4:],
            "wide": base[0, :1].expand(9),
        },
        [
            model.weight,
            model.bias,
            marked,
            base.to(torch.bfloat16),
            base.to(torch.float8_e4m3fn),
            base.long(),
            base > 3,
        ],
    ]


def saved(value: Any, stream: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=not stream)
    return buffer.getvalue()


def damaged(data: bytes, source: random.Random) -> bytes:
    """A few bytes other, fewer or more; half of the time at the beginning of an instruction."""
    codes = [ord(code.code) for code in pickletools.opcodes]
    for _ in range(source.randrange(1, 4)):
        at = source.randrange(len(data))
        kind = source.randrange(5)
        if kind == 0:
            data = data[:at] + bytes([data[at] ^ 1 << source.randrange(8)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + bytes([source.choice(codes)]) + data[at + 1 :]
        elif kind == 2:
            data = data[:at] + data[at + source.randrange(1, 9) :]
        elif kind == 3:
            other = source.randrange(len(data))
            data = data[:at] + data[other : other + source.randrange(1, 17)] + data[at:]
        else:
            data = data[:at] + bytes([source.choice(codes)]) + data[at:]
    return data


def rebuilt(data: bytes, source: random.Random) -> bytes:
    """An archive whose pickle is damaged and has the right checksum."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for entry in old.infolist():
            held = old.read(entry)
            new.writestr(
                zipfile.ZipInfo(entry.filename), damaged(held, source) if entry.filename.endswith("/data.pkl") else held
            )
    return buffer.getvalue()


def stream_of(
    pickled: bytes,
    keys: bytes = whole(LIST, text("0"), b"a"),
    data: bytes = struct.pack("<q", 4) + FOUR,
    magic: int = 0x1950A86A20F9469CFC6C,
    version: int = 1001,
    little: bool = True,
) -> bytes:
    machine = {"protocol_version": version, "little_endian": little, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    return b"".join([pickle.dumps(magic, 2), pickle.dumps(version, 2), pickle.dumps(machine, 2), pickled, keys, data])


def streams() -> Iterator[tuple[str, bytes]]:
    """PyTorch's older form, by hand."""

    def view(part: bytes) -> bytes:
        return tuple_of(text("storage"), name("torch", "FloatStorage"), text("0"), text("cpu"), number(4), part) + b"Q"

    plain = whole(tensor(view(NONE)))
    yield "good", stream_of(plain)
    yield "from a big-endian machine", stream_of(plain, little=False)
    yield "another magic", stream_of(plain, magic=7)
    yield "another version", stream_of(plain, version=1002)
    yield (
        "a part of a storage",
        stream_of(whole(tensor(view(tuple_of(text("1"), number(1), number(2))), 0, (2,), (1,)))),
    )
    yield "no keys", stream_of(plain, keys=whole(LIST), data=b"")
    yield "a key too many", stream_of(plain, keys=whole(LIST, text("0"), b"a", text("1"), b"a"))
    yield "the key twice", stream_of(plain, keys=whole(LIST, text("0"), b"a", text("0"), b"a"))
    yield "bytes behind", stream_of(plain) + b"x"
    yield "few elements", stream_of(plain, data=struct.pack("<q", 4) + FOUR[:-1])
    for count in (3, 5, -1, 2**62):
        yield f"{count} elements", stream_of(plain, data=struct.pack("<q", count) + FOUR)
    for length in range(1, len(stream_of(plain)), 37):
        yield f"cut at {length}", stream_of(plain)[:length]
    yield "a huge text", stream_of(whole(text("x" * 200_000)), keys=whole(LIST), data=b"")
    yield "evil", stream_of(evil("os", "system", "true"))
    yield "a module", stream_of(whole(tuple_of(text("module"), name("torch.nn", "Linear"), text("a"), text("b")), b"Q"))


def corpus(seed: int, rounds: int, sentinel: str) -> Iterator[tuple[str, bytes]]:
    for label, data in pickles(sentinel):
        yield f"pickle: {label}", archive(data)
        if len(data) < 10_000:
            yield f"pickle in a stream: {label}", stream_of(data.replace(b"tQ", b"NtQ"))  # Ids have one part more.
    for label, data in archives():
        yield f"archive: {label}", data
    for label, data in streams():
        yield f"stream: {label}", data
    source = random.Random(seed)
    for i, value in enumerate(objects()):
        for stream in (False, True):
            good = saved(value, stream)
            yield f"saved {i} {stream}", good
            for round_ in range(rounds):
                yield f"damaged {i} {stream} {round_}", damaged(good, source)
                if not stream:
                    yield f"damaged pickle {i} {round_}", rebuilt(good, source)
