"""tapconv.conv1d for arrays without PyTorch: NumPy's, and whatever gives NumPy its memory by DLPack or as a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._plans import OWN_MATH, check_types, planned


def as_array(name: str, value: Any) -> np.ndarray:
    """A C-contiguous array over the value's own memory; copied only if it is not contiguous."""
    if not isinstance(value, np.ndarray):
        if hasattr(value, "__dlpack__"):
            value = np.from_dlpack(value)
        else:
            try:
                value = np.asarray(memoryview(value))
            except TypeError:
                raise TypeError(
                    f"{name} is a {type(value).__name__}; it must be a PyTorch tensor, a NumPy array, or give its "
                    "memory by __dlpack__ or as a buffer"
                ) from None
    if value.dtype.name not in OWN_MATH or not value.dtype.isnative:
        kinds = ", ".join(OWN_MATH)
        raise TypeError(f"{name} has the type {value.dtype}; it must be {kinds} in the machine's byte order")
    if not (value.flags.c_contiguous and value.flags.aligned):
        value = np.require(value, requirements=["C", "A"])
    return value


def address(array: np.ndarray | None) -> int:
    return 0 if array is None else array.__array_interface__["data"][0]


def conv1d(
    x, weight, bias, stride, padding, dilation, groups, causal, norm_groups, norm_weight, norm_bias, eps, activation,
    math,
) -> np.ndarray:
    x = as_array("x", x)
    weight = as_array("weight", weight)
    if norm_weight is None and norm_bias is not None:
        norm_weight = np.ones(np.shape(norm_bias), x.dtype)
    elif norm_bias is None and norm_weight is not None:
        norm_bias = np.zeros_like(norm_weight)
    given = {"bias": bias, "norm_weight": norm_weight, "norm_bias": norm_bias}
    arrays = {name: None if value is None else as_array(name, value) for name, value in given.items()}
    kinds = {name: array.dtype for name, array in arrays.items() if array is not None}
    param_kind = check_types(x.dtype, {"weight": weight.dtype} | kinds, np.dtype(np.float32)) or x.dtype
    shapes = [None if array is None else array.shape for array in arrays.values()]
    geometry = (stride, padding, dilation, groups)
    stride, padding, dilation, groups = (tuple(value) if isinstance(value, list) else value for value in geometry)
    plan = planned(
        x.shape,
        weight.shape,
        *shapes,
        x.dtype.name,
        param_kind.name,
        stride,
        padding,
        dilation,
        groups,
        causal,
        norm_groups,
        eps,
        activation,
        math,
    )
    y = np.empty(plan.out_shape, x.dtype)
    plan.run(address(x), address(weight), 0, *(address(array) for array in arrays.values()), address(y))
    return y
