"""Writes array types as MessagePack values, as numpy does in .npy files. Refuses object types."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

Spelled = str | list[Any]


def spell(dtype: np.dtype[Any]) -> Spelled:
    """Return a text such as "<u8", or a list of fields. Raises TypeError for objects."""
    if dtype.hasobject:
        raise TypeError(f"arrays of {dtype} are not data")
    return cast(Spelled, np.lib.format.dtype_to_descr(dtype))


def read(spelled: Spelled) -> np.dtype[Any]:
    """Return the type that `spell` wrote. Raises ValueError for anything else, and for objects."""
    try:
        dtype = np.lib.format.descr_to_dtype(_with_tuples(spelled))
    except (TypeError, ValueError, SyntaxError, IndexError, KeyError) as error:
        raise ValueError(f"{str(spelled)[:100]} is not a type") from error
    if dtype.hasobject:
        raise ValueError(f"{str(spelled)[:100]} is not a type of data")
    return dtype


def _with_tuples(spelled: Any) -> Any:
    """Return the fields as tuples, (name, type) or (name, type, shape): MessagePack makes lists of tuples."""
    if isinstance(spelled, str):
        return spelled
    fields = []
    for name, kind, *shape in spelled:
        title = tuple(name) if isinstance(name, list) else name
        fields.append((title, _with_tuples(kind), *(tuple(each) for each in shape)))
    return fields
