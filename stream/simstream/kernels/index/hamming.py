"""Hamming distance: popcount, and the plain scan of a column for all values within k of a query.

The popcount is LLVM's own (`llvm.ctpop`), also of whole vectors. So a comparison of a column becomes `vpopcntq` if
the CPU has it, else `popcnt` or bit tricks. All arithmetic is on uint64: numba turns a mixture of signed and
unsigned 64-bit integers into floats.

A hit has two numbers: the found value (or its place in the column), and a tag, `query << 8 | distance`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numpy import uint64
from numpy.typing import NDArray

from simstream.kernels.bits import lowest, spread
from simstream.kernels.jit import inlined, lean_kernel
from simstream.model import U64

LANES = 32
"""Values that `near` compares at once: eight vectors of 256 bits, or four of 512, of 64-bit values."""


def _popcount(_typing, value):  # type: ignore[no-untyped-def]
    """Return the number of 1 bits of a uint64, as uint64."""

    def emit(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        return builder.ctpop(args[0])

    signature: Signature = types.uint64(types.uint64)
    return signature, emit


def _prefetch(_typing, array, index):  # type: ignore[no-untyped-def]
    """Prefetch the cache line of a contiguous array's element `index`. Any index is safe, as no element is read."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        i32, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        address = builder.bitcast(builder.gep(data, [args[1]]), pointer)
        name = "llvm.prefetch.p0"
        function = builder.module.globals.get(name)
        if function is None:
            kind = ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
            function = ir.Function(builder.module, kind, name)
        read, keep, data_cache = ir.Constant(i32, 0), ir.Constant(i32, 3), ir.Constant(i32, 1)
        builder.call(function, [address, read, keep, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.int64), emit


def _near(_typing, array, index, query, most):  # type: ignore[no-untyped-def]
    """Return a bit for each of the LANES unsigned integers from `index` on: 1 if it differs from `query` in at most
    `most` bits.

    All of them must lie inside the array; this is not checked. Query and limit have the array's type. The loop is
    written out as vectors: the compiler's own loop takes seven times as long.
    """

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        bits = signature.args[0].dtype.bitwidth
        vector = ir.VectorType(ir.IntType(bits), LANES)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        place = builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer())
        values = builder.load(place, align=bits // 8)
        name = f"llvm.ctpop.v{LANES}i{bits}"
        count = builder.module.globals.get(name)
        if count is None:
            count = ir.Function(builder.module, ir.FunctionType(vector, [vector]), name)
        differing = builder.call(count, [builder.xor(values, spread(builder, args[2], vector))])
        within = builder.icmp_unsigned("<=", differing, spread(builder, args[3], vector))
        return builder.zext(builder.bitcast(within, ir.IntType(LANES)), ir.IntType(64))

    signature: Signature = types.uint64(array, types.int64, array.dtype, array.dtype)
    return signature, emit


# numba types an intrinsic as its emitter, but kernels call it with these types
popcount: Any = intrinsic(_popcount)
prefetch: Any = intrinsic(_prefetch)
near: Any = intrinsic(_near)


@inlined
def rotate_left(value, bits):  # type: ignore[no-untyped-def]
    """Return `value` rotated left by `bits` (0 to 63); both are uint64."""
    return (value << bits) | (value >> ((uint64(64) - bits) & uint64(63)))


@lean_kernel
def scan(
    queries: U64,
    first: int,
    distance: int,
    column: U64,
    places: U64,
    tags: U64,
) -> tuple[int, int]:
    """Find all places of `column` within `distance` of each query: the plainest way, and exact for any distance.

    Writes places and tags of the hits of `queries[first:]`, in the order of queries. Returns the next query and the
    number of hits. If the hits of one more query did not fit, the next query is below the number of queries. Cost:
    about 0.1 ns a query and value with vectors of 512 bits, else 0.3.
    """
    most = uint64(distance)
    hits = 0
    for q in range(first, queries.size):
        mark = hits
        query = queries[q]
        for at in range(0, column.size, LANES):
            if at + LANES <= column.size:
                found = near(column, at, query, most)
            else:
                found = uint64(0)
                for i in range(at, column.size):
                    found |= uint64(popcount(column[i] ^ query) <= most) << uint64(i - at)
            while found != uint64(0):
                if hits == places.size:
                    return q, mark
                place = at + lowest(found)
                found &= found - uint64(1)
                places[hits] = uint64(place)
                tags[hits] = (uint64(q) << uint64(8)) | popcount(column[place] ^ query)
                hits += 1
    return queries.size, hits


@lean_kernel
def mark_near(column: U64, limit: int, marks: NDArray[np.uint8]) -> None:
    """Set the mark of each of n values (n,) that differs from another one in at most `limit` bits.

    Other marks stay. Cost: n * n / 20 ns.
    """
    most = uint64(limit)
    for one in range(column.size):
        value = column[one]
        at = one + 1
        while at < column.size:
            if at + LANES <= column.size:
                found = near(column, at, value, most)
            else:
                found = uint64(0)
                for i in range(at, column.size):
                    found |= uint64(popcount(column[i] ^ value) <= most) << uint64(i - at)
            if found != uint64(0):
                marks[one] = 1
            while found != uint64(0):
                marks[at + lowest(found)] = 1
                found &= found - uint64(1)
            at += LANES


@lean_kernel
def any_near(values: U64, limit: int) -> bool:
    """Whether any two of n rows (n, d) differ in at most `limit` bits in any column. Cost: n * n * d / 2 ns."""
    most = uint64(limit)
    for column in range(values.shape[1]):
        for one in range(1, len(values)):
            value = values[one, column]
            for other in range(one):
                if popcount(value ^ values[other, column]) <= most:
                    return True
    return False
