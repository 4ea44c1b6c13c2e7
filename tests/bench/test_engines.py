"""The benchmark times the same layer everywhere: each formulation against the benchmark's own float64 truth."""

import data
import numpy as np
import onnx
import pytest
import suite
from engines import graphs, tapconv_engine, torch_engine
from onnx.reference import ReferenceEvaluator

SMALL = suite.read_text("""
causal: --shape 2,6,40 --out-channels 8 --kernel 3 --bias --dilation 2 --causal --activation tanh
strided: --shape 3,4,31 --out-channels 6 --kernel 5 --stride 2 --groups 2 --padding 2 --activation gelu
normed: --shape 2,4,33 --out-channels 12 --kernel 3 --bias --padding 1 --norm-groups 3 --affine --activation mish
causal-normed: --shape 2,4,20 --out-channels 6 --kernel 4 --bias --causal --norm-groups 1 --affine --activation silu
depthwise: --shape 2,8,50 --out-channels 8 --kernel 4 --bias --groups 8 --causal --activation silu
""")


def error(run, truth):
    run.run()
    return data.relative_error(run.result(), truth)


@pytest.fixture(params=SMALL, ids=lambda layer: layer.name)
def prepared(request):
    arrays = data.make(request.param)
    return request.param, arrays, data.samples(request.param, arrays)


def test_tapconv_is_asked_for_the_layer(prepared):
    layer, arrays, truth = prepared
    for formulation in tapconv_engine.formulations(layer, arrays, threads=1):
        assert error(formulation.make(), truth) <= 1e-6


def test_every_way_to_say_it_in_torch_is_the_layer(prepared):
    layer, arrays, truth = prepared
    names = []
    for formulation in torch_engine.formulations(layer, arrays, threads=1):
        if formulation.name != "compiled":  # takes longer than all the rest
            assert error(formulation.make(), truth) <= 1e-6, formulation.name
            names.append(formulation.name)
    assert len(names) >= 3


def test_every_graph_is_the_layer(prepared):
    layer, arrays, truth = prepared
    for name, _, chosen in graphs.choices(layer, channels_last=True):
        model = onnx.load_from_string(graphs.make(layer, arrays, **chosen))
        onnx.checker.check_model(model)
        forms = chosen.get("two_d", False), chosen.get("channels_last", False)
        x, y = graphs.arrays(layer, arrays, *forms)
        given = ReferenceEvaluator(model).run(None, {"x": x})[0]
        assert given.shape == y.shape
        assert data.relative_error(graphs.as_ncl(layer, given, forms[1]), truth) <= 1e-6, name


def test_an_output_that_nobody_wrote_is_an_error():
    layer = SMALL[0]
    arrays = data.make(layer)
    nothing = data.poisoned((layer.batch, layer.out_channels, layer.out_length))
    assert np.isnan(data.relative_error(nothing, data.samples(layer, arrays)))
