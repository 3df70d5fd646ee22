"""Pickles of tensors that PyTorch did not mean to be read. See corpus.py."""

from __future__ import annotations

from collections.abc import Iterator

from pickle_parts import DICT, HOOKS, NONE, call, name, number, storage, tensor, text, tuple_of, whole


def tensors() -> Iterator[tuple[str, bytes]]:
    """Tensors that leave their storage, and storages that are two things."""
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
