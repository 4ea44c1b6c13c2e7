"""ONNX: the package's own backend tests, and its reference evaluator, which is an implementation of its own in NumPy.

The package has these 1-D problems: eight of Conv in the tests converted from PyTorch, and the CausalConvWithState node
tests. Its Conv node tests are 2-D, but with one input channel, so that rows can stand as channels.
"""

import pathlib
import warnings

import generating
import judging
import numpy as np
import onnx
import onnx.backend.test
import onnx.helper
import onnx.numpy_helper
import onnx.reference
import pytest
import tapconv_ctypes as tapconv
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx.backend.test.case.node import collect_testcases
from tapconv_ctypes import ACTIVATIONS

ISAS = list(tapconv.isas())


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


with warnings.catch_warnings():  # of other operators' tests
    warnings.simplefilter("ignore")
    NODE_TESTS = [test for test in collect_testcases() if len(test.model.graph.node) == 1]


def node_tests(op):
    """{name: test} of the node tests that are one node of this operator."""
    return {test.name: test for test in NODE_TESTS if test.model.graph.node[0].op_type == op}


def converted_tests():
    """{name: (node, inputs, output)} of the 1-D Conv among the tests stored with the package."""
    found = {}
    for path in sorted((pathlib.Path(onnx.backend.test.__file__).parent / "data").glob("pytorch-*/*/model.onnx")):
        model = onnx.load(path)
        values = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
        fed = [i for i in model.graph.input if i.name not in values]
        for i, value in enumerate(fed):
            stored = path.parent / "test_data_set_0" / f"input_{i}.pb"
            values[value.name] = onnx.numpy_helper.to_array(onnx.load_tensor(stored))
        nodes = model.graph.node
        if len(nodes) == 1 and nodes[0].op_type == "Conv" and values[nodes[0].input[1]].ndim == 3:
            output = onnx.numpy_helper.to_array(onnx.load_tensor(path.parent / "test_data_set_0" / "output_0.pb"))
            found[path.parent.name] = (nodes[0], [values[name] for name in nodes[0].input], output)
    return found


CONVERTED = converted_tests()
CONV = node_tests("Conv")
CAUSAL = node_tests("CausalConvWithState")
GROUP_NORM = node_tests("GroupNormalization")


def compare(p, arrays, expected, rtol=1e-3, atol=1e-6):
    """On every instruction set: right by our own bound, and equal to ONNX's numbers within ONNX's own tolerance."""
    for isa in ISAS:
        call = judging.Call(isa=isa)
        y = judging.check(p, arrays, call)
        np.testing.assert_allclose(y.double().numpy(), expected, rtol, atol, err_msg=judging.text(p, call, arrays))


def test_the_tests_are_there():
    assert set(CONVERTED) == {
        f"test_Conv1d{which}"
        for which in ("", "_dilated", "_groups", "_pad1", "_pad1size1", "_pad2", "_pad2size1", "_stride")
    }
    assert len(CONV) >= 6 and len(CAUSAL) >= 12 and len(GROUP_NORM) >= 2


@pytest.mark.parametrize("name", CONVERTED)
@pytest.mark.parametrize("layout", tapconv.LAYOUTS)
def test_converted_conv1d(name, layout):
    node, inputs, output = CONVERTED[name]
    options = attributes(node)
    left, right = options.get("pads", (0, 0))
    x, w, *bias = (torch.from_numpy(array.copy()) for array in inputs)
    p = tapconv.problem(
        *x.shape[:2],
        w.shape[0],
        x.shape[2],
        w.shape[2],
        stride=options.get("strides", [1])[0],
        layout=layout,
        dilation=options.get("dilations", [1])[0],
        groups=options.get("group", 1),
        padding_left=left,
        padding_right=right,
        has_bias=len(bias),
    )
    compare(p, judging.Arrays(x, w, *bias, origin=f"ONNX {name}"), output)


def same_padding(size, kernel, stride, upper):
    """ONNX's SAME_UPPER and SAME_LOWER: ceil(size/stride) outputs, the odd zero behind or in front."""
    total = max(0, (-(-size // stride) - 1) * stride + kernel - size)
    return (total // 2, total - total // 2) if upper else (total - total // 2, total // 2)


@pytest.mark.parametrize("name", CONV)
def test_conv_nodes(name):
    """2-D with one channel, as 1-D along the width: rows are the channels, and w is banded."""
    node = CONV[name].model.graph.node[0]
    options = attributes(node)
    assert options.get("group", 1) == 1 and set(options.get("dilations", [1])) == {1}
    for (image, kernel), (output,) in CONV[name].data_sets:
        assert image.shape[1] == kernel.shape[0] == kernel.shape[1] == 1
        (height, width), (rows, taps) = image.shape[2:], kernel.shape[2:]
        strides = options.get("strides", [1, 1])
        top, left, _, right = options.get("pads", [0] * 4)
        if options.get("auto_pad", b"NOTSET") != b"NOTSET":
            upper = options["auto_pad"] == b"SAME_UPPER"
            (top, _), (left, right) = (
                same_padding(size, k, s, upper)
                for size, k, s in zip((height, width), (rows, taps), strides, strict=True)
            )
        w = np.zeros((output.shape[2], height, taps), np.float32)
        for row, i in np.ndindex(output.shape[2], rows):
            at = row * strides[0] + i - top
            if 0 <= at < height:
                w[row, at] = kernel[0, 0, i]
        p = tapconv.problem(
            image.shape[0], height, w.shape[0], width, taps, stride=strides[1], padding_left=left, padding_right=right
        )
        arrays = judging.Arrays(torch.from_numpy(image[:, 0].copy()), torch.from_numpy(w), origin=f"ONNX {name}")
        compare(p, arrays, output[:, 0], CONV[name].rtol)


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_conv_nodes(name):
    """Causal depthwise layers of state-space models; a past state takes the place of the zeros on the left."""
    node = CAUSAL[name].model.graph.node[0]
    activation = {b"none": "none", b"silu": "silu", b"swish": "silu"}[attributes(node).get("activation", b"none")]
    for inputs, outputs in CAUSAL[name].data_sets:
        given = iter(inputs)
        x, w, bias, past = (next(given) if i < len(node.input) and node.input[i] else None for i in range(4))
        kind = {"float32": "f32", "float16": "f16"}[x.dtype.name]
        left = w.shape[2] - 1
        if past is not None:
            x, left = np.concatenate([past, x], 2), 0
        p = tapconv.problem(
            x.shape[0],
            x.shape[1],
            w.shape[0],
            x.shape[2],
            w.shape[2],
            groups=x.shape[1],
            padding_left=left,
            has_bias=int(bias is not None),
            activation=activation,
            type=kind,
            math=kind,
            param_type=kind,
        )
        tensors = [None if array is None else torch.from_numpy(array.copy()) for array in (x, w, bias)]
        compare(
            p,
            judging.Arrays(*tensors, origin=f"ONNX {name}"),
            outputs[0],
            CAUSAL[name].rtol,
            1e-6 if kind == "f32" else 1e-3,
        )


@pytest.mark.parametrize("name", GROUP_NORM)
def test_group_normalization_nodes(name):
    """Behind an identity; height and width together are T."""
    options = attributes(GROUP_NORM[name].model.graph.node[0])
    for (x, scale, bias), (output,) in GROUP_NORM[name].data_sets:
        channels = x.shape[1]
        flat = torch.from_numpy(x.reshape(*x.shape[:2], -1).copy())
        p = tapconv.problem(
            x.shape[0],
            channels,
            channels,
            flat.shape[2],
            1,
            norm_groups=options["num_groups"],
            norm_eps=options.get("epsilon", 1e-5),
            norm_affine=1,
        )
        arrays = judging.Arrays(
            flat,
            torch.eye(channels)[..., None],
            None,
            torch.from_numpy(scale.copy()),
            torch.from_numpy(bias.copy()),
            origin=f"ONNX {name}",
        )
        compare(p, arrays, output.reshape(flat.shape), GROUP_NORM[name].rtol)


def onnx_activation(name):
    if name == "none":
        return []
    op, options = {
        "silu": ("Swish", {}),
        "gelu": ("Gelu", {"approximate": "none"}),
        "gelu-tanh": ("Gelu", {"approximate": "tanh"}),
        "leaky-relu": ("LeakyRelu", {"alpha": 0.01}),
        "elu": ("Elu", {"alpha": 1.0}),
    }.get(name, (name.capitalize(), {}))
    return [(op, options)]


def evaluate(p, arrays):
    """The layer as an ONNX model in float64, by ONNX's reference evaluator."""
    fed = {"x": arrays.x, "w": arrays.w, "bias": arrays.bias, "gamma": arrays.gamma, "beta": arrays.beta}
    fed = {name: tensor.double().numpy() for name, tensor in fed.items() if tensor is not None}
    steps = [
        (
            "Conv",
            {
                "strides": [p.stride],
                "dilations": [p.dilation],
                "group": p.groups,
                "pads": [p.padding_left, p.padding_right],
                "kernel_shape": [p.kernel_size],
            },
            ["w"] + ["bias"] * p.has_bias,
        )
    ]
    if p.norm_groups:
        for name, value in (("gamma", 1.0), ("beta", 0.0)):
            fed.setdefault(name, np.full(p.out_channels, value))
        options = {"num_groups": p.norm_groups, "epsilon": p.norm_eps, "stash_type": onnx.TensorProto.DOUBLE}
        steps.append(("GroupNormalization", options, ["gamma", "beta"]))
    steps += [(op, options, []) for op, options in onnx_activation(ACTIVATIONS[p.activation])]
    nodes, value = [], "x"
    for i, (op, options, parameters) in enumerate(steps):
        nodes.append(onnx.helper.make_node(op, [value, *parameters], [f"v{i}"], **options))
        value = f"v{i}"
    describe = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, None) for name in fed]
    result = onnx.helper.make_tensor_value_info(value, onnx.TensorProto.DOUBLE, None)
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "layer", describe, [result]), opset_imports=[onnx.helper.make_opsetid("", 24)]
    )
    return onnx.reference.ReferenceEvaluator(model).run(None, fed)[0]


@generating.examples(120)
@given(generating.problems(work=4000, batches=(1, 2, 3)), st.integers(0, 2**31 - 1), st.data())
def test_reference_evaluator(p, seed, data):
    """ONNX's evaluator in place of PyTorch's float64, on whole layers; y against both."""
    p.norm_eps = float(np.float32(p.norm_eps or 1e-5))  # ONNX's type; with 0 its constant groups are NaN
    arrays = judging.make_arrays(p, seed)
    y = judging.check(p, arrays, data.draw(generating.calls(p)))
    if tapconv.MATHS[p.math] in ("f32", "f64"):  # where it sees the operands that we see
        expected = evaluate(p, arrays)
        error = judging.truth(p, arrays)[1]
        rtol = {"f32": 1e-5, "f64": 1e-10, "f16": 2e-3, "bf16": 1e-2}[tapconv.TYPES[p.type]]
        atol = rtol * 1e-3
        if ACTIVATIONS[p.activation] in ("gelu", "gelu-tanh", "leaky-relu"):  # ONNX has their constants in float32
            rtol, atol = max(rtol, 1e-6), max(atol, 1e-7)
        assert y.shape == expected.shape
        wrong = ~(np.abs(y.double().numpy() - expected) <= error + rtol * np.abs(expected) + atol)
        assert not wrong.any(), f"{np.argwhere(wrong)[0]} differs from ONNX: {judging.text(p, None, arrays)}"
