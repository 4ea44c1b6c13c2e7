"""ONNX Runtime: all graph optimisations, weights packed when the graph is loaded, input and output bound beforehand."""

import onnxruntime

from engines import Formulation, Run, graphs


def versions():
    return {"onnxruntime": onnxruntime.__version__}


def _make(layer, data, threads, two_d=False, channels_last=False, decomposed=False):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    model = graphs.make(layer, data, two_d, channels_last, decomposed)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    x, y = graphs.arrays(layer, data, two_d, channels_last)
    binding = session.io_binding()
    value = onnxruntime.OrtValue.ortvalue_from_numpy(x)
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y", "cpu", 0, y.dtype, y.shape, y.ctypes.data)

    kept = (x, value, y)  # the binding only borrows them

    def run():
        session.run_with_iobinding(binding)

    def result():
        return graphs.as_ncl(layer, kept[2], channels_last)

    return Run(run, result)


def formulations(layer, data, threads):
    # Its float32 convolution knows no channels-last form; the transposes pay at most for depthwise layers.
    for name, layout, chosen in graphs.choices(layer, channels_last=layer.is_depthwise):
        yield Formulation(name, layout, lambda chosen=chosen: _make(layer, data, threads, **chosen))
