"""Bits of words, and bytes compared or copied 64 at a time: LLVM's own instructions, which numba has no names for.

A mask has bit i for byte i of the 64. All 64 bytes must lie inside the array; this is not checked. What numba hands
to the functions below has no types that a checker knows.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

LANES: Final = 64
_VECTOR: Final = ir.VectorType(ir.IntType(8), LANES)


def _lowest(_typing, value):  # type: ignore[no-untyped-def]
    """Return the place of the lowest 1 bit of a uint64 that is not 0, as int64."""

    def emit(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    signature: Signature = types.int64(types.uint64)
    return signature, emit


def spread(builder, value, vector):  # type: ignore[no-untyped-def]
    """Return a vector of this type with the value in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, undefined, zeros)


def _address(context, builder, kind, array, at):  # type: ignore[no-untyped-def]
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer())


def _comparison(relation: str):  # type: ignore[no-untyped-def]
    def compare(_typing, array, at, byte):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
            values = builder.load(_address(context, builder, signature.args[0], *args[:2]), align=1)
            found = builder.icmp_unsigned(relation, values, spread(builder, args[2], _VECTOR))
            return builder.bitcast(found, ir.IntType(LANES))

        signature: Signature = types.uint64(array, types.int64, types.uint8)
        return signature, emit

    return compare


def _copy(_typing, source, at, target, to):  # type: ignore[no-untyped-def]
    """Copy 64 bytes from place `at` of one array to place `to` of another."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        values = builder.load(_address(context, builder, signature.args[0], *args[:2]), align=1)
        builder.store(values, _address(context, builder, signature.args[2], *args[2:]), align=1)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), emit


# numba types an intrinsic as its emitter, but kernels call it with these types
lowest: Any = intrinsic(_lowest)
equal_64: Any = intrinsic(_comparison("=="))
"""`equal_64(array, at, byte)`: the mask of the bytes from `at` on that equal this one."""
at_most_64: Any = intrinsic(_comparison("<="))
"""The same for bytes that are at most this one."""
copy_64: Any = intrinsic(_copy)
