"""`tapconv run`: what it computes, what it writes, and that it writes all or nothing."""

import os
import resource
import signal
import subprocess
import threading

import numpy as np
import pytest
from calling import COMMAND, call, call_json, expected, relative_error, save, to_bf16, to_tf32

F32_ERROR = 1e-6


def run(tmp_path, *words, **options):
    out = tmp_path / "y.npy"
    call("run", *words, "-o", out, **options)
    return np.load(out)


@pytest.mark.parametrize(
    "words, keywords",
    [
        ([], {}),
        (["--stride", 3], {"stride": 3}),
        (["--dilation", 4], {"dilation": 4}),
        (["--padding", 2], {"padding": (2, 2)}),
        (["--padding", "5,1"], {"padding": (5, 1)}),
        (["--padding", "0,7", "--stride", 2], {"padding": (0, 7), "stride": 2}),
        (["--causal"], {"padding": (2, 0)}),
        (["--causal", "--dilation", 5], {"padding": (10, 0), "dilation": 5}),
        (["--norm-groups", 4], {"norm_groups": 4}),
        (["--norm-groups", 1, "--eps", 0], {"norm_groups": 1, "eps": 0.0}),
        (["--norm-groups", 8, "--eps", "0.5"], {"norm_groups": 8, "eps": 0.5}),
    ],
)
def test_options(tmp_path, layer, words, keywords):
    y = run(tmp_path, "-x", layer["x_file"], "-w", layer["w_file"], *words)
    reference = expected(layer["x"], layer["w"], **keywords)
    assert y.shape == reference.shape and y.dtype == np.dtype("<f4") and y.flags.c_contiguous
    assert relative_error(y, reference) < F32_ERROR


@pytest.mark.parametrize(
    "activation", ["none", "relu", "silu", "gelu", "gelu-tanh", "mish", "tanh", "sigmoid", "elu", "leaky-relu"]
)
def test_activation_after_bias_and_norm(tmp_path, layer, activation):
    words = ["-b", layer["b_file"], "--norm-groups", 2, "--gamma", layer["gamma_file"], "--beta", layer["beta_file"]]
    y = run(tmp_path, "-x", layer["x_file"], "-w", layer["w_file"], *words, "--activation", activation)
    reference = expected(
        layer["x"],
        layer["w"],
        layer["b"],
        norm_groups=2,
        gamma=layer["gamma"],
        beta=layer["beta"],
        activation=activation,
    )
    assert relative_error(y, reference) < F32_ERROR


@pytest.mark.parametrize("groups, w_shape", [(2, (8, 3, 3)), (6, (12, 1, 5)), (3, (3, 2, 1))])
def test_groups(tmp_path, layer, random, groups, w_shape):
    w = random.standard_normal(w_shape).astype(np.float32)
    y = run(tmp_path, "-x", layer["x_file"], "-w", save(tmp_path / "grouped.npy", w), "--groups", groups)
    assert relative_error(y, expected(layer["x"], w, groups=groups)) < F32_ERROR


def test_unbatched_input_gives_unbatched_output(tmp_path, layer):
    x = save(tmp_path / "one.npy", layer["x"][0])
    y = run(tmp_path, "-x", x, "-w", layer["w_file"], "--causal")
    assert y.shape == (8, 40)
    assert relative_error(y, expected(layer["x"][:1], layer["w"], padding=(2, 0))[0]) < F32_ERROR


def test_nlc_layout(tmp_path, layer):
    swapped = save(tmp_path / "nlc.npy", np.ascontiguousarray(layer["x"].swapaxes(1, 2)))
    y = run(tmp_path, "-x", swapped, "-w", layer["w_file"], "--layout", "nlc", "--stride", 2)
    assert y.shape == (2, 19, 8)
    assert relative_error(y.swapaxes(1, 2), expected(layer["x"], layer["w"], stride=2)) < F32_ERROR


@pytest.mark.parametrize(
    "math, rounded",
    [
        ("tf32", to_tf32),
        ("f16", lambda a: a.astype(np.float16)),
        ("bf16", to_bf16),
    ],
)
def test_math_modes_round_the_operands(tmp_path, layer, math, rounded):
    y = run(tmp_path, "-x", layer["x_file"], "-w", layer["w_file"], "-b", layer["b_file"], "--math", math)
    reference = expected(rounded(layer["x"]), rounded(layer["w"]), layer["b"])
    assert y.dtype == np.dtype("<f4")
    assert relative_error(y, reference) < {"tf32": F32_ERROR, "f16": 4e-4, "bf16": 3e-3}[math]
    assert relative_error(y, expected(layer["x"], layer["w"], layer["b"])) > 5e-5


@pytest.mark.parametrize("math, rounded", [("f16", lambda a: a.astype(np.float16)), ("bf16", to_bf16)])
def test_half_modes_store_in_their_type_on_the_way(tmp_path, layer, math, rounded):
    y = run(tmp_path, "-x", layer["x_file"], "-w", layer["w_file"], "--math", math)
    assert np.array_equal(y, rounded(y).astype(np.float32))


def test_f64_keeps_float64_in_full(tmp_path, random):
    x, w, b = (random.standard_normal(shape) for shape in [(2, 5, 30), (4, 5, 3), (4,)])
    files = [save(tmp_path / f"{i}.npy", a) for i, a in enumerate((x, w, b))]
    y = run(tmp_path, "-x", files[0], "-w", files[1], "-b", files[2], "--math", "f64")
    assert y.dtype == np.dtype("<f8")
    assert relative_error(y, expected(x, w, b)) < 1e-15


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
@pytest.mark.parametrize("byte_order", "<>")
@pytest.mark.parametrize("memory_order", "CF")
def test_every_npy_type_and_order_is_converted(tmp_path, layer, kind, byte_order, memory_order):
    files, arrays = [], []
    for name in "xwb":
        array = np.asarray(layer[name], dtype=byte_order + kind, order=memory_order)
        arrays.append(array)
        files += [f"-{name}", save(tmp_path / f"{kind}{name}.npy", array)]
    assert relative_error(run(tmp_path, *files), expected(*arrays)) < F32_ERROR


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(tmp_path, layer, version):
    path = tmp_path / "versioned.npy"
    with open(path, "wb") as file:
        np.lib.format.write_array(file, layer["x"], version=version)
    assert (
        relative_error(run(tmp_path, "-x", path, "-w", layer["w_file"]), expected(layer["x"], layer["w"])) < F32_ERROR
    )


@pytest.mark.parametrize(
    "header",
    [
        '{"shape":(2,6,40),"descr":"<f4","fortran_order":False}',
        "{ 'fortran_order' : False , 'descr':'<f4',\n 'shape' : ( 2 , 6 , 40 , ) , } \n\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 6, 40), }" + " " * 70000,
    ],
)
def test_headers_as_python_may_write_them(tmp_path, layer, header):
    path = tmp_path / "odd.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header.encode() + layer["x"].tobytes())
    assert (
        relative_error(run(tmp_path, "-x", path, "-w", layer["w_file"]), expected(layer["x"], layer["w"])) < F32_ERROR
    )


def test_input_through_a_pipe(tmp_path, layer):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(layer["x_file"].read_bytes()))
    writer.start()
    y = run(tmp_path, "-x", fifo, "-w", layer["w_file"])
    writer.join()
    assert relative_error(y, expected(layer["x"], layer["w"])) < F32_ERROR


def test_empty_batch(tmp_path, layer):
    y = run(tmp_path, "-x", save(tmp_path / "none.npy", np.zeros((0, 6, 40), np.float32)), "-w", layer["w_file"])
    assert y.shape == (0, 8, 38)


def test_empty_batch_of_endless_columns(tmp_path, layer):
    """What a fuzzer found: an array without elements may have 10^15 columns, and no loop may walk through them."""
    header = "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 6, 1000000000000000), }"
    path = tmp_path / "endless.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    (answer,) = call_json("explain", "-x", path, "-w", layer["w_file"])
    assert answer["out_shape"] == [0, 8, 1000000000000000 - 2]
    for words in (["check"], ["bench", "--runs", 3, "--plain"], ["run", "-o", tmp_path / "y.npy"]):
        call(*words, "-x", path, "-w", layer["w_file"], timeout=30)
    assert np.load(tmp_path / "y.npy").shape == (0, 8, 1000000000000000 - 2)


def test_no_samples_but_padding(tmp_path, layer):
    x = save(tmp_path / "silence.npy", np.zeros((2, 6, 0), np.float32))
    y = run(tmp_path, "-x", x, "-w", layer["w_file"], "-b", layer["b_file"], "--padding", "2,1")
    assert np.array_equal(y, np.broadcast_to(layer["b"][:, None], (2, 8, 1)))


def test_no_samples_and_too_little_padding(tmp_path, layer):
    x = save(tmp_path / "silence.npy", np.zeros((2, 6, 0), np.float32))
    failed = call("run", "-x", x, "-w", layer["w_file"], "--padding", 1, "-o", tmp_path / "y.npy", status=2)
    assert f"-x {x}: T_out" in failed.err and not (tmp_path / "y.npy").exists()


def test_json(tmp_path, layer):
    words = ["-x", layer["x_file"], "-w", layer["w_file"], "-o", tmp_path / "y.npy"]
    (answer,) = call_json("run", *words)
    assert answer["out_shape"] == [2, 8, 38] and answer["ms"] > 0
    (forced,) = call_json("run", *words, "--force-kernel", "dense-panel", "--isa", "scalar")
    assert forced["kernel"] == "dense-panel/scalar"


def test_table(tmp_path, layer):
    out = call("run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", tmp_path / "y.npy").out
    assert "(2,8,38)" in out and "ms" in out and "kernel" in out


def test_same_bits_for_any_thread_count(tmp_path, layer):
    words = ["-x", layer["x_file"], "-w", layer["w_file"], "--norm-groups", 2]
    assert run(tmp_path, *words, "--threads", 1).tobytes() == run(tmp_path, *words, "--threads", 2).tobytes()


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_closed_standard_streams(tmp_path, layer, closed):
    """Files are then opened under the numbers of the streams, and nothing that is printed may reach them."""
    words = ["run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", tmp_path / "y.npy"]
    close = lambda: [os.close(number) for number in closed]  # noqa: E731
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, timeout=60, preexec_fn=close)
    assert done.returncode == (3 if 1 in closed else 0)
    sentence = b"tapconv run: standard output cannot be written: Bad file descriptor\n"
    assert done.stderr == (sentence if 1 in closed and 2 not in closed else b"")
    assert relative_error(np.load(tmp_path / "y.npy"), expected(layer["x"], layer["w"])) < F32_ERROR


def test_reader_that_leaves(layer):
    """As any command in a pipeline: it ends by SIGPIPE, without a word."""
    reader, writer = os.pipe()
    os.close(reader)
    words = ["check", "-x", layer["x_file"], "-w", layer["w_file"]]
    done = subprocess.run([COMMAND, *map(str, words)], stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert done.returncode == -signal.SIGPIPE and done.stderr == b""


def test_no_directory_for_temporary_files(tmp_path, layer):
    environment = dict(os.environ, TMPDIR=str(tmp_path / "nowhere"))
    run(tmp_path, "-x", layer["x_file"], "-w", layer["w_file"], env=environment)


# ------------------------------------------------------------------ writing, all or nothing


def test_output_replaces_a_file_and_keeps_its_mode(tmp_path, layer):
    out = tmp_path / "y.npy"
    out.write_bytes(b"old")
    out.chmod(0o640)
    run(tmp_path, "-x", layer["x_file"], "-w", layer["w_file"])
    assert out.stat().st_mode & 0o777 == 0o640


def test_output_has_the_mode_of_a_new_file(tmp_path, layer):
    run(tmp_path, "-x", layer["x_file"], "-w", layer["w_file"], umask=0o027)
    assert (tmp_path / "y.npy").stat().st_mode & 0o777 == 0o640


def test_output_may_be_the_input(tmp_path, layer):
    call("run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", layer["x_file"])
    assert relative_error(np.load(layer["x_file"]), expected(layer["x"], layer["w"])) < F32_ERROR


def test_symbolic_link_is_followed(tmp_path, layer):
    (tmp_path / "y.npy").symlink_to(tmp_path / "real.npy")
    (tmp_path / "real.npy").write_bytes(b"old")
    run(tmp_path, "-x", layer["x_file"], "-w", layer["w_file"])
    assert (tmp_path / "y.npy").is_symlink() and np.load(tmp_path / "real.npy").shape == (2, 8, 38)


def test_symbolic_link_to_a_new_file(tmp_path, layer):
    """Links to links, relative to where they lie, whose file is yet to be made."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "y.npy").symlink_to("here/link.npy")
    (tmp_path / "here" / "link.npy").symlink_to("../there/real.npy")
    run(tmp_path, "-x", layer["x_file"], "-w", layer["w_file"])
    assert (tmp_path / "y.npy").is_symlink() and (tmp_path / "here" / "link.npy").is_symlink()
    assert np.load(tmp_path / "there" / "real.npy").shape == (2, 8, 38)


def test_symbolic_links_in_a_circle(tmp_path, layer):
    (tmp_path / "one.npy").symlink_to("two.npy")
    (tmp_path / "two.npy").symlink_to("one.npy")
    failed = call("run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", tmp_path / "one.npy", status=2)
    assert "Too many levels of symbolic links" in failed.err and (tmp_path / "two.npy").is_symlink()


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_calls_in_a_pipeline(tmp_path, layer, json):
    """What is read at the other end is an array and nothing behind it, which another call would refuse."""
    words = ["run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", "/dev/stdout", *json]
    first = subprocess.run([COMMAND, *map(str, words)], capture_output=True, timeout=60)
    assert first.returncode == 0 and first.stderr == b"" and len(first.stdout) == 128 + 4 * 2 * 8 * 38
    w = save(tmp_path / "second.npy", np.ones((1, 8, 1), np.float32))
    call("run", "-x", "/dev/stdin", "-w", w, "-o", tmp_path / "y.npy", input=first.stdout)
    assert np.load(tmp_path / "y.npy").shape == (2, 1, 38)


def test_output_into_a_pipe(layer):
    words = ["run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", "/dev/stderr"]
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stderr.startswith(b"\x93NUMPY") and len(done.stderr) == 128 + 4 * 2 * 8 * 38


def test_null_device_stays_a_device(layer):
    call("run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", "/dev/null")
    assert not os.path.isfile("/dev/null")


def test_full_disk(layer):
    failed = call("run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", "/dev/full", status=3)
    assert "-o /dev/full" in failed.err and not os.path.isfile("/dev/full")


def test_disk_that_fills_while_writing_leaves_nothing(tmp_path, layer):
    directory = tmp_path / "out"
    directory.mkdir()
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # noqa: E731
    failed = call(
        "run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", directory / "y.npy", status=3, preexec_fn=limit
    )
    assert "y.npy" in failed.err and list(directory.iterdir()) == []


@pytest.mark.parametrize("json", [[], ["--json"]])
@pytest.mark.parametrize("call_name", ["run", "check", "bench", "explain", "info", "--help"])
def test_full_standard_output(tmp_path, layer, call_name, json):
    words = {
        "run": ["-x", layer["x_file"], "-w", layer["w_file"], "-o", tmp_path / "y.npy"],
        "bench": ["-x", layer["x_file"], "-w", layer["w_file"], "--runs", "1"],
        "info": [],
        "--help": [],
    }.get(call_name, ["-x", layer["x_file"], "-w", layer["w_file"]])
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [COMMAND, call_name, *map(str, words), *json], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert done.returncode == 3 and done.stderr.count(b"\n") == 1
    assert done.stderr.endswith(b"standard output cannot be written: No space left on device\n")


def test_full_standard_output_ends_a_suite(tmp_path):
    """Who has no room for the first row has no use for an hour of others."""
    suite = tmp_path / "long.suite"
    suite.write_text("a: --shape 1,1,8 --out-channels 1 --kernel 1 --min-time 1\n" * 100)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [COMMAND, "bench", "--suite", suite], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert done.returncode == 3 and b"No space left on device" in done.stderr


@pytest.mark.parametrize(
    "path", ["missing/y.npy", "x.npy/y.npy", "", "/sys/y.npy", "/proc/y.npy", "n" * 300, "./", "n/" * 2100, "dangling"]
)
def test_wrong_output_path(tmp_path, layer, path):
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "y.npy")
    before = sorted(tmp_path.iterdir())
    failed = call("run", "-x", layer["x_file"], "-w", layer["w_file"], "-o", path, status=2, cwd=tmp_path)
    assert "-o" in failed.err and sorted(tmp_path.iterdir()) == before


def test_failed_run_keeps_the_old_output(tmp_path, layer):
    (tmp_path / "y.npy").write_bytes(b"old")
    call("run", "-x", layer["x_file"], "-w", layer["w_file"], "--groups", 5, "-o", tmp_path / "y.npy", status=2)
    assert (tmp_path / "y.npy").read_bytes() == b"old"


def test_interrupted_run_leaves_nothing(tmp_path):
    x = save(tmp_path / "x.npy", np.zeros((1, 16, 1 << 20), np.float32))
    w = save(tmp_path / "w.npy", np.zeros((16, 16, 9), np.float32))
    directory = tmp_path / "out"
    directory.mkdir()
    for delay in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3):
        process = subprocess.Popen(
            [COMMAND, "run", "-x", x, "-w", w, "-o", directory / "y.npy"], stdout=subprocess.DEVNULL
        )
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            process.wait()
        left = list(directory.iterdir())
        assert left in ([], [directory / "y.npy"])
        for path in left:
            assert np.load(path).shape == (1, 16, (1 << 20) - 8)
            path.unlink()


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGALRM", "SIGUSR1", "SIGXCPU"])
def test_signal_while_writing_leaves_nothing(tmp_path, name):
    """The signal is sent as soon as the temporary file is there."""
    x = save(tmp_path / "x.npy", np.zeros((1, 1, 1 << 20), np.float32))
    w = save(tmp_path / "w.npy", np.zeros((64, 1, 1), np.float32))
    directory = tmp_path / "out"
    directory.mkdir()
    words = [COMMAND, "run", "-x", x, "-w", w, "-o", directory / "y.npy"]

    def begin():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(getattr(signal, name), signal.SIG_DFL)  # a test run in the background inherits ignored ones

    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=begin)
    while process.poll() is None and not any(directory.iterdir()):
        pass
    process.send_signal(getattr(signal, name))
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == -getattr(signal, name), "caught while it was writing"
    assert list(directory.iterdir()) == []


def test_ignored_signal_while_writing_stays_ignored(tmp_path):
    """As nohup does it."""
    x = save(tmp_path / "x.npy", np.zeros((1, 1, 1 << 20), np.float32))
    w = save(tmp_path / "w.npy", np.zeros((64, 1, 1), np.float32))
    directory = tmp_path / "out"
    directory.mkdir()
    words = [COMMAND, "run", "-x", x, "-w", w, "-o", directory / "y.npy"]
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, preexec_fn=ignore)
    while process.poll() is None and not any(directory.iterdir()):
        pass
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 0
    assert np.load(directory / "y.npy").shape == (1, 64, 1 << 20)
