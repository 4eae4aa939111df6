"""Arrays over the memory of `bytes`, without a copy, for Python and for kernels."""

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


def bytes_and_words(raw: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Return an array (n,) over n bytes, and one (n // 8,) over the same memory in words of 8 bytes."""
    found = np.frombuffer(raw, np.uint8)
    return found, found[: found.size & ~7].view(np.uint64)


def addresses(parts: Sequence[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the addresses (n,) and the sizes (n,) of n `bytes`. Cost: about 1 us each.

    The caller keeps `parts` alive as long as the addresses are used.
    """
    arrays = [np.frombuffer(part, np.uint8) for part in parts]
    found = np.fromiter((array.ctypes.data for array in arrays), np.uint64, len(arrays))
    return found, np.fromiter((array.size for array in arrays), np.int64, len(arrays))


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


# type checkers see the emitter's arguments, but kernels call it with an address and a size
bytes_at: Any = intrinsic(_over(types.uint8))
"""`bytes_at(address, n)`: a read-only array (n,) of bytes at this address, which is not checked."""
words_at: Any = intrinsic(_over(types.uint64))
"""`words_at(address, n)`: the same for n words of 8 bytes."""
