"""OpenVINO: compiled for latency in float32, one stream, input and output tensors in place."""

import openvino

from engines import Formulation, Run, graphs


def versions():
    return {"openvino": openvino.__version__}


def _make(layer, data, threads, two_d=False, channels_last=False, decomposed=False):
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
    }
    core = openvino.Core()
    model = core.read_model(graphs.make(layer, data, two_d, channels_last, decomposed))
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    x, y = graphs.arrays(layer, data, two_d, channels_last)
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))
    request.set_output_tensor(openvino.Tensor(y, shared_memory=True))

    kept = (x, y)  # the tensors only borrow them

    def run():
        request.start_async()
        request.wait()

    def result():
        return graphs.as_ncl(layer, kept[1], channels_last)

    return Run(run, result)


def formulations(layer, data, threads):
    for name, layout, chosen in graphs.choices(layer, channels_last=True):
        yield Formulation(name, layout, lambda chosen=chosen: _make(layer, data, threads, **chosen))
