"""The shared library's interface through ctypes, for tests and benchmarks.

It adds nothing to include/tapconv.h: structs, prototypes, and a failed call raised as `Error` with the library's own
sentence. The library is $TAPCONV_LIBRARY, or build/libtapconv.so of this tree.
"""

import ctypes
import os
import pathlib
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_void_p,
)

OK, INVALID_ARGUMENT, OUT_OF_MEMORY, NO_DEVICE, DEVICE_ERROR = range(5)

# The library's names, each at the index that is its value in the header's enumeration.
TYPES = ("f32", "f64", "f16", "bf16")
MATHS = ("f32", "tf32", "f16", "bf16", "f64")
LAYOUTS = ("ncl", "nlc")
ACTIVATIONS = ("none", "relu", "silu", "gelu", "gelu-tanh", "mish", "tanh", "sigmoid", "elu", "leaky-relu")
TYPE_BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}
MATHS_OF_TYPE = {
    "f32": ("f32", "tf32", "f16", "bf16", "f64"),
    "f64": ("f64",),
    "f16": ("f32", "tf32", "f16", "f64"),
    "bf16": ("f32", "tf32", "bf16", "f64"),
}


class Error(Exception):
    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


class Problem(Structure):
    _fields_ = [
        ("batch", c_int64),
        ("in_channels", c_int64),
        ("out_channels", c_int64),
        ("length", c_int64),
        ("kernel_size", c_int64),
        ("stride", c_int64),
        ("dilation", c_int64),
        ("groups", c_int64),
        ("padding_left", c_int64),
        ("padding_right", c_int64),
        ("norm_groups", c_int64),
        ("norm_eps", c_double),
        ("norm_affine", c_int32),
        ("has_bias", c_int32),
        ("activation", c_int32),
        ("layout", c_int32),
        ("type", c_int32),
        ("param_type", c_int32),
        ("math", c_int32),
        ("reserved", c_int32 * 5),
    ]


class PlanOptions(Structure):
    _fields_ = [
        ("device", c_int32),
        ("device_index", c_int32),
        ("threads", c_int32),
        ("isa_mask", c_uint32),
        ("kernel", c_char_p),
        ("card", c_char_p),
        ("engine_path", c_char_p),
        ("reserved", c_int32 * 6),
    ]


class PlanInfo(Structure):
    _fields_ = [
        ("kernel", c_char_p),
        ("reason", c_char_p),
        ("isa", c_char_p),
        ("out_length", c_int64),
        ("flops", c_double),
        ("bytes", c_double),
        ("workspace_bytes", c_size_t),
        ("packed_weights_bytes", c_size_t),
        ("threads", c_int32),
        ("device", c_char_p),
        ("tile", c_char_p),
        ("blocks", c_int64),
        ("block_threads", c_int32),
        ("registers", c_int32),
        ("shared_bytes", c_int32),
        ("blocks_per_multiprocessor", c_int32),
        ("waves", c_double),
    ]


class Arrays(Structure):
    _fields_ = [
        ("x", c_void_p),
        ("packed_weights", c_void_p),
        ("bias", c_void_p),
        ("gamma", c_void_p),
        ("beta", c_void_p),
        ("y", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("stream", c_void_p),
        ("reserved", c_void_p * 3),
    ]


class Ceilings(Structure):
    _fields_ = [
        ("gflops", c_double),
        ("gbytes_per_s", c_double),
        ("fma_gflops", c_double),
        ("least_seconds", c_double),
        ("measured", c_int32),
    ]


class DeviceInfo(Structure):
    _fields_ = [
        ("name", c_char * 64),
        ("major", c_int32),
        ("minor", c_int32),
        ("multiprocessors", c_int32),
        ("driver_version", c_int32),
        ("runtime_version", c_int32),
        ("memory_bytes", c_int64),
        ("free_bytes", c_int64),
        ("l2_bytes", c_int64),
    ]


_PROTOTYPES = {
    "tapconv_version": (c_char_p, []),
    "tapconv_last_error": (c_char_p, []),
    "tapconv_conv1d": (Problem, [c_int64] * 6),
    "tapconv_causal_conv1d": (Problem, [c_int64] * 6),
    "tapconv_conv1d_groupnorm": (Problem, [c_int64] * 7),
    "tapconv_problem_check": (c_int32, [POINTER(Problem), POINTER(c_int64)]),
    "tapconv_type_name": (c_char_p, [c_int32]),
    "tapconv_math_name": (c_char_p, [c_int32]),
    "tapconv_layout_name": (c_char_p, [c_int32]),
    "tapconv_activation_name": (c_char_p, [c_int32]),
    "tapconv_type_bytes": (c_size_t, [c_int32]),
    "tapconv_cpu_features": (c_uint32, []),
    "tapconv_isa_name": (c_char_p, [c_uint32]),
    "tapconv_plan_create": (c_int32, [POINTER(c_void_p), POINTER(Problem), POINTER(PlanOptions)]),
    "tapconv_plan_destroy": (None, [c_void_p]),
    "tapconv_plan_get_info": (None, [c_void_p, POINTER(PlanInfo)]),
    "tapconv_kernel_name": (c_char_p, [c_int32]),
    "tapconv_packed_weights_bytes": (c_size_t, [c_void_p]),
    "tapconv_pack_weights": (c_int32, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "tapconv_workspace_bytes": (c_size_t, [c_void_p]),
    "tapconv_execute": (c_int32, [c_void_p, POINTER(Arrays)]),
    "tapconv_reference": (c_int32, [POINTER(Problem)] + [c_void_p] * 6),
    "tapconv_reference_group": (c_int32, [POINTER(Problem)] + [c_void_p] * 5 + [c_int64, c_int64, c_void_p]),
    "tapconv_convert": (c_int32, [c_void_p, c_int32, c_void_p, c_int32, c_int64]),
    "tapconv_round_tf32": (None, [c_void_p, c_int64]),
    "tapconv_measure_ceilings": (c_int32, [POINTER(PlanOptions), c_int32, POINTER(Ceilings)]),
    "tapconv_pack_weights_on": (c_int32, [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p]),
    "tapconv_device_kernel_name": (c_char_p, [POINTER(PlanOptions), c_int32]),
    "tapconv_card_name": (c_char_p, [POINTER(PlanOptions), c_int32]),
    "tapconv_device_count": (c_int32, [POINTER(PlanOptions), POINTER(c_int32)]),
    "tapconv_device_describe": (c_int32, [POINTER(PlanOptions), POINTER(DeviceInfo)]),
    "tapconv_device_allocate": (c_int32, [POINTER(PlanOptions), POINTER(c_void_p), c_size_t]),
    "tapconv_device_free": (c_int32, [POINTER(PlanOptions), c_void_p]),
    "tapconv_device_upload": (c_int32, [POINTER(PlanOptions), c_void_p, c_void_p, c_size_t]),
    "tapconv_device_download": (c_int32, [POINTER(PlanOptions), c_void_p, c_void_p, c_size_t]),
    "tapconv_device_fill": (c_int32, [POINTER(PlanOptions), c_void_p, c_uint8, c_size_t]),
    "tapconv_device_synchronize": (c_int32, [POINTER(PlanOptions)]),
    "tapconv_device_time": (
        c_int32,
        [c_void_p, POINTER(Arrays), c_int32, c_uint32, c_int32, POINTER(c_double), c_int32],
    ),
}

_loaded = None


def library():
    """The loaded library, its functions under their C names."""
    global _loaded
    if _loaded is None:
        default = pathlib.Path(__file__).resolve().parent.parent / "build" / "libtapconv.so"
        loaded = ctypes.CDLL(os.environ.get("TAPCONV_LIBRARY", str(default)))
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(loaded, name)
            function.restype = result
            function.argtypes = arguments
        _loaded = loaded
    return _loaded


def require(status):
    if status != OK:
        raise Error(status, library().tapconv_last_error().decode())


def problem(batch, in_channels, out_channels, length, kernel_size, **fields):
    """A problem with the header's defaults. Enumerations are given by name: type="bf16", activation="gelu-tanh"."""
    made = Problem(batch, in_channels, out_channels, length, kernel_size, 1, 1, 1, norm_eps=1e-5)
    names = {"activation": ACTIVATIONS, "layout": LAYOUTS, "type": TYPES, "param_type": TYPES, "math": MATHS}
    for name, value in fields.items():
        if name not in dict(Problem._fields_):
            raise TypeError(f"tapconv_problem has no field {name}")
        setattr(made, name, names[name].index(value) if isinstance(value, str) else value)
    return made


def out_length(described):
    """T_out of a legal problem; `Error` for any other."""
    length = c_int64()
    require(library().tapconv_problem_check(byref(described), byref(length)))
    return length.value


def isas():
    """{name: bit} of the instruction sets that can run here."""
    features = library().tapconv_cpu_features()
    return {library().tapconv_isa_name(1 << b).decode(): 1 << b for b in range(32) if features >> b & 1}


def kernels():
    """The names of the CPU engine's kernel families."""
    names = []
    while (name := library().tapconv_kernel_name(len(names))) is not None:
        names.append(name.decode())
    return names


class Plan:
    """A planned problem; destroyed by `close`, at the end of a `with`, or with the object."""

    def __init__(self, described, threads=0, isa_mask=0, kernel=None, device=0, device_index=0, card=None):
        self._plan = c_void_p()
        texts = [text.encode() if text else None for text in (kernel, card)]
        options = PlanOptions(device, device_index, threads, isa_mask, *texts)
        require(library().tapconv_plan_create(byref(self._plan), byref(described), byref(options)))
        self.info = PlanInfo()
        library().tapconv_plan_get_info(self._plan, byref(self.info))

    def pack(self, w, packed, packed_bytes):
        require(library().tapconv_pack_weights(self._plan, w, packed, packed_bytes))

    def execute(self, arrays):
        require(library().tapconv_execute(self._plan, byref(arrays)))

    def close(self):
        library().tapconv_plan_destroy(self._plan)
        self._plan = c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def __del__(self):
        if self._plan:
            self.close()
