"""Arrays over the memory of `bytes`, without a copy, also made by a kernel that reads many of them in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray


def as_words(raw: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Return an array over these bytes, and one over the same memory in whole words of 8 bytes."""
    found = np.frombuffer(raw, np.uint8)
    return found, found[: len(raw) & ~7].view(np.uint64)


def addresses(parts: Sequence[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the addresses (n,) and the sizes (n,) of n `bytes`, which must outlive their use. Cost: about 1 us
    each."""
    arrays = [np.frombuffer(part, np.uint8) for part in parts]
    places = np.fromiter((array.ctypes.data for array in arrays), np.uint64, len(arrays))
    return places, np.fromiter((array.size for array in arrays), np.int64, len(arrays))


def _over(kind: Any) -> Any:
    def over(_typing, address, size):  # type: ignore[no-untyped-def]
        array = types.Array(kind, 1, "C", readonly=True)

        def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
            made = context.make_array(signature.return_type)(context, builder)
            data = builder.inttoptr(args[0], context.get_data_type(kind).as_pointer())
            bytes_each = ir.Constant(ir.IntType(64), kind.bitwidth // 8)
            populate_array(made, data, [args[1]], [bytes_each], bytes_each, None)
            return made._getvalue()

        signature: Signature = array(types.uint64, types.int64)
        return signature, emit

    return over


# numba types an intrinsic as its emitter, but kernels call it with these types
bytes_at: Any = intrinsic(_over(types.uint8))
"""`bytes_at(address, n)`: n bytes from this address on, which are not written. The address is not checked."""
words_at: Any = intrinsic(_over(types.uint64))
"""`words_at(address, n)`: the same for n words of 8 bytes."""
