"""The layer as an ONNX graph, for the engines that take one."""

import data as layer_data
import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 21


class _Builder:
    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, kind, *inputs, **attributes):
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name


def _normalise(g, layer, data, y, spatial, decomposed):
    gamma, beta = data.gamma, data.beta
    if not decomposed:
        return g.node(
            "GroupNormalization", y, g.constant(gamma), g.constant(beta),
            num_groups=layer.norm_groups, epsilon=layer_data.EPS,
        )  # fmt: skip
    ones, zeros = np.ones(layer.norm_groups, np.float32), np.zeros(layer.norm_groups, np.float32)
    y = g.node("Reshape", y, g.constant(np.array([layer.batch, layer.norm_groups, -1], np.int64)))
    y = g.node("InstanceNormalization", y, g.constant(ones), g.constant(zeros), epsilon=layer_data.EPS)
    y = g.node("Reshape", y, g.constant(np.array([layer.batch, layer.out_channels, *spatial], np.int64)))
    channels = (1, layer.out_channels) + (1,) * len(spatial)
    y = g.node("Mul", y, g.constant(gamma.reshape(channels)))
    return g.node("Add", y, g.constant(beta.reshape(channels)))


def _activate(g, name, y):
    if name == "none":
        return y
    if name == "silu":
        return g.node("Mul", y, g.node("Sigmoid", y))
    return g.node({"relu": "Relu", "gelu": "Gelu", "mish": "Mish", "tanh": "Tanh"}[name], y)


def make(layer, data, two_d=False, channels_last=False, decomposed=False):
    """Bytes of a model from "x" to "y"; channels_last (with two_d) takes and gives (N, 1, T, C)."""
    g = _Builder()
    lift, ones = ([0], [1]) if two_d else ([], [])
    left, right = layer.padding
    in_shape = [layer.batch, layer.in_channels, *ones, layer.length]
    out_shape = [layer.batch, layer.out_channels, *ones, layer.out_length]
    x = "x"
    if channels_last:
        x = g.node("Transpose", x, perm=[0, 3, 1, 2])
    w = data.w[:, :, None] if two_d else data.w
    inputs = [x, g.constant(w)] + ([] if data.bias is None else [g.constant(data.bias)])
    y = g.node(
        "Conv", *inputs, kernel_shape=[*ones, layer.kernel], strides=[*ones, layer.stride],
        dilations=[*ones, layer.dilation], group=layer.groups, pads=[*lift, left, *lift, right],
    )  # fmt: skip
    if layer.norm_groups:
        y = _normalise(g, layer, data, y, out_shape[2:], decomposed)
    y = _activate(g, layer.activation, y)
    if channels_last:
        y = g.node("Transpose", y, perm=[0, 2, 3, 1])
        in_shape, out_shape = ([s[0], *s[2:], s[1]] for s in (in_shape, out_shape))
    g.nodes[-1].output[0] = "y"
    ends = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", in_shape), ("y", out_shape)))
    graph = helper.make_graph(g.nodes, "layer", [next(ends)], [next(ends)], g.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return model.SerializeToString()


def arrays(layer, data, two_d, channels_last):
    """(x, y) for such a model: x filled, y to be written."""
    if channels_last:
        x = layer_data.aligned((layer.batch, 1, layer.length, layer.in_channels))
        x[:, 0] = data.x.transpose(0, 2, 1)
        return x, layer_data.poisoned((layer.batch, 1, layer.out_length, layer.out_channels))
    x, y = data.x, layer_data.poisoned((layer.batch, layer.out_channels, layer.out_length))
    return (x[:, :, None], y[:, :, None]) if two_d else (x, y)


def as_ncl(layer, y, channels_last):
    return y[:, 0].transpose(0, 2, 1) if channels_last else y.reshape(layer.batch, layer.out_channels, -1)


def choices(layer, channels_last):
    """(name, layout, choices) of the graphs worth trying."""
    norms = {", op": False, ", decomposed": True} if layer.norm_groups else {"": False}
    for norm, decomposed in norms.items():
        yield "1-D" + norm, "ncl", {"decomposed": decomposed}
        yield "2-D" + norm, "ncl", {"two_d": True, "decomposed": decomposed}
        if channels_last:
            chosen = {"two_d": True, "channels_last": True, "decomposed": decomposed}
            yield "2-D, channels last" + norm, "nlc", chosen
