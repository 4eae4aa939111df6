"""Hamming distance: popcount, and the plain scan of a column for all values within k of a query.

The popcount is LLVM's own (`llvm.ctpop.i64`), so that a loop over a column becomes `vpopcntq` where the CPU
has it, `popcnt` or bit tricks elsewhere. All arithmetic is on uint64: numba turns a mixture of signed and
unsigned 64-bit integers into floats.

A hit is two numbers: the value found (or its place in the column), and a tag, `query << 8 | distance`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numpy import int64, uint64

from stream.kernels.jit import kernel
from stream.model import U64

BLOCK = 256
"""Values that are counted in one vector loop before any of them is looked at singly."""


def _popcount(_typing, value):  # type: ignore[no-untyped-def]
    """The number of 1 bits of a uint64, as uint64."""

    def emit(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        return builder.ctpop(args[0])

    signature: Signature = types.uint64(types.uint64)
    return signature, emit


def _prefetch(_typing, array, index):  # type: ignore[no-untyped-def]
    """Ask for the cache line of a contiguous array's element `index`; any index is safe, none is read."""

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


popcount: Any = intrinsic(_popcount)  # numba types an intrinsic as its emitter, not as what kernels call
prefetch: Any = intrinsic(_prefetch)


@njit(inline="always")
def rotate_left(value, bits):  # type: ignore[no-untyped-def]
    """`value` with its top `bits` bits moved to its end; `bits` from 0 to 63, both uint64."""
    return (value << bits) | (value >> ((uint64(64) - bits) & uint64(63)))


@njit(inline="always")
def count_within(column, start, end, query, distance):  # type: ignore[no-untyped-def]
    """How many of `column[start:end]` lie within `distance` of `query`; no branch, so it vectorizes."""
    count = uint64(0)
    for i in range(start, end):
        count += uint64(popcount(column[i] ^ query) <= distance)
    return count


@kernel
def scan(
    queries: U64,
    first: int,
    distance: int,
    column: U64,
    places: U64,
    tags: U64,
) -> tuple[int, int]:
    """All places of `column` within `distance` of each query: the plainest way, and exact for any distance.

    Writes places and tags of the hits of `queries[first:]` (queries ascending). Returns the next query and
    the number of hits written; the next query is below the number of queries where the hits of one more did
    not fit. Cost: about 0.3 ns a query and value.
    """
    within = uint64(distance)
    hits = 0
    for q in range(first, queries.size):
        mark = hits
        query = queries[q]
        for start in range(0, column.size, BLOCK):
            end = min(start + BLOCK, column.size)
            found = int64(count_within(column, start, end, query, within))
            if found == 0:
                continue
            if hits + found > places.size:
                return q, mark
            for i in range(start, end):
                d = popcount(column[i] ^ query)
                if d <= within:
                    places[hits] = uint64(i)
                    tags[hits] = (uint64(q) << uint64(8)) | d
                    hits += 1
    return queries.size, hits
