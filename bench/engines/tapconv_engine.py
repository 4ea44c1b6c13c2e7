"""tapconv through its C interface: planned and packed once, executed on arrays of the caller's."""

import ctypes
import dataclasses

import data as layer_data
import tapconv_ctypes as tapconv

from engines import Formulation, Run


def versions():
    library = tapconv.library()
    return {"tapconv": f"{library.tapconv_version().decode()} ({', '.join(tapconv.isas())})"}


def ceilings(threads):
    measured, options = tapconv.Ceilings(), tapconv.PlanOptions(threads=threads)
    math = tapconv.MATHS.index("f32")
    tapconv.require(
        tapconv.library().tapconv_measure_ceilings(ctypes.byref(options), math, ctypes.byref(measured)),
    )
    return {"threads": threads, "gflops": measured.gflops, "gbytes_per_s": measured.gbytes_per_s}


def without_norm_and_activation(layer):
    return dataclasses.replace(layer, norm_groups=0, affine=False, activation="none")


def _address(array):
    return None if array is None else array.ctypes.data


def make(layer, data, threads):
    left, right = layer.padding
    described = tapconv.problem(
        layer.batch, layer.in_channels, layer.out_channels, layer.length, layer.kernel, stride=layer.stride,
        dilation=layer.dilation, groups=layer.groups, padding_left=left, padding_right=right,
        norm_groups=layer.norm_groups, norm_affine=int(layer.affine), has_bias=int(layer.bias),
        activation=layer.activation,
    )  # fmt: skip
    plan = tapconv.Plan(described, threads=threads)
    packed = layer_data.aligned((plan.info.packed_weights_bytes,), "u1")
    workspace = layer_data.aligned((plan.info.workspace_bytes,), "u1")
    y = layer_data.poisoned((layer.batch, layer.out_channels, layer.out_length))
    plan.pack(_address(data.w), _address(packed), packed.nbytes)
    gamma, beta = (data.gamma, data.beta) if layer.affine else (None, None)
    arrays = tapconv.Arrays(
        *map(_address, (data.x, packed, data.bias, gamma, beta, y, workspace)), workspace_bytes=workspace.nbytes
    )
    execute, handle, reference = tapconv.library().tapconv_execute, plan._plan, ctypes.byref(arrays)
    kept = (plan, packed, workspace, data, y)

    def run():
        return execute(handle, reference)

    def result():
        return kept[-1]

    tapconv.require(run())
    return Run(run, result, plan.info.kernel.decode())


def formulations(layer, data, threads):
    return [Formulation("planned", "ncl", lambda: make(layer, data, threads))]
