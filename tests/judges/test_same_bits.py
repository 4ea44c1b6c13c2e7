"""The same bits, whatever the batch size, the thread count, the run, where arrays lie, and, without GroupNorm, T."""

import concurrent.futures
import dataclasses

import generating
import judging
import numpy as np
import pytest
import tapconv_ctypes as tapconv
import torch
from hypothesis import given
from hypothesis import strategies as st
from judging import Call, run, same_bits, text, with_fields


def first(a, b):
    """Where two results differ first, for messages."""
    return np.argwhere((a != b).numpy())[:1].tolist()


def item(arrays, n):
    return dataclasses.replace(arrays, x=arrays.x[n : n + 1].contiguous())


@generating.examples(250)
@given(generating.cases(batches=(2, 3, 5)), st.data())
def test_batch_threads_run_and_place(case, data):
    p, arrays, call = case
    whole = run(p, arrays, call)
    other = Call(data.draw(st.integers(1, 5)), call.isa, call.kernel, data.draw(st.integers(0, 15)))
    again = run(p, arrays, other)
    assert same_bits(whole, again), f"{first(whole, again)} differs with {other}: {text(p, call, arrays)}"
    n = data.draw(st.integers(0, p.batch - 1))
    alone = run(with_fields(p, batch=1), item(arrays, n), other)
    assert same_bits(whole[n : n + 1], alone), (
        f"{first(whole[n : n + 1], alone)} of item {n} differs alone: {text(p, call, arrays)}"
    )


@generating.examples(40)
@given(generating.cases(batches=(1, 2), work=2e7), st.integers(2, 5))
def test_threads_on_larger_problems(case, threads):
    p, arrays, call = case
    one = run(p, arrays, dataclasses.replace(call, threads=1))
    many = run(p, arrays, dataclasses.replace(call, threads=threads))
    assert same_bits(one, many), f"{first(one, many)} differs with {threads} threads: {text(p, call, arrays)}"


@generating.examples(300)
@given(generating.cases(norm=False, batches=(1, 2)), st.data())
def test_length(case, data):
    """A shorter input has the same bits wherever its windows end before it does, also if the longer plan's kernel was
    chosen for its length."""
    p, arrays, call = case
    reach = (p.kernel_size - 1) * p.dilation
    length = data.draw(st.integers(0, p.length))
    right = max(0, reach + 1 - length - p.padding_left)
    cut = with_fields(p, length=length, padding_right=right)
    if not (call.kernel is None or judging.takes(cut, call)):
        return
    whole, short = (
        run(p, arrays, call),
        run(cut, dataclasses.replace(arrays, x=arrays.x[..., :length].contiguous()), call),
    )
    same = max(0, min(short.shape[2], whole.shape[2], (length - 1 - reach + p.padding_left) // p.stride + 1))
    a, b = whole[..., :same], short[..., :same]
    assert same_bits(a, b), f"{first(a, b)} differs with T {length}: {text(p, call, arrays)}"


@generating.examples(200)
@given(generating.problems(norm=False, batches=(1, 2)), st.integers(0, 1000), st.data())
def test_chunks(p, seed, data):
    """A causal layer at once, and in chunks with the samples before each as its history."""
    reach = (p.kernel_size - 1) * p.dilation
    p = with_fields(p, stride=1, padding_left=reach, padding_right=0, length=max(1, p.length))
    arrays = judging.make_arrays(p, seed)
    call = Call(isa=data.draw(st.sampled_from(list(tapconv.isas()))))
    whole = run(p, arrays, call)
    history = torch.zeros(p.batch, p.in_channels, reach, dtype=arrays.x.dtype)
    padded = torch.cat([history, arrays.x], 2)
    start = 0
    while start < p.length:
        size = data.draw(st.sampled_from((1, 1, 2, 3, 7, 16, 64, 250)) if p.length - start > 1 else st.just(1))
        size = max(min(size, p.length - start), -(-p.length // 8))  # eight chunks are enough
        size = min(size, p.length - start)
        x = padded[..., start : start + reach + size].contiguous()
        chunk = run(with_fields(p, length=reach + size, padding_left=0), dataclasses.replace(arrays, x=x), call)
        a = whole[..., start : start + size]
        assert same_bits(a, chunk), (
            f"{first(a, chunk)} after {start} differs in a chunk of {size}: {text(p, call, arrays)}"
        )
        start += size


@generating.examples(150)
@given(generating.cases(styles=("normal",)), st.data())
def test_packed_weights_serve_every_plan(case, data):
    """Packed for another batch, length, instruction set, kernel and thread count of the same layer."""
    p, arrays, call = case
    other = with_fields(p, batch=p.batch + 1, length=data.draw(st.integers(0, 999)) + p.kernel_size * p.dilation)
    other.layout = data.draw(st.integers(0, 1))
    way = data.draw(generating.calls(other))
    with tapconv.Plan(other, way.threads, tapconv.isas()[way.isa] if way.isa else 0, way.kernel) as packing:
        y = run(p, arrays, call, lambda plan, memory: judging.execute(plan, memory, packing))
    assert same_bits(y, run(p, arrays, call)), f"packed by the plan of {text(other, way)}: {text(p, call, arrays)}"


@pytest.mark.parametrize("norm_groups", [0, 4])
def test_one_plan_for_many_callers(norm_groups):
    """Executed by four threads at once, each with a workspace and y of its own."""
    p = tapconv.problem(2, 24, 32, 1500, 3, padding_left=2, norm_groups=norm_groups, activation="silu")
    arrays = judging.make_arrays(p)
    expected = run(p, arrays, Call(threads=2)).numpy().tobytes()
    with tapconv.Plan(p, threads=2) as plan:
        info = plan.info
        packed = judging.Guarded(info.packed_weights_bytes)
        plan.pack(arrays.w.data_ptr(), packed.address, info.packed_weights_bytes)

        def compute(_):
            y, workspace = judging.Guarded(len(expected)), judging.Guarded(info.workspace_bytes)
            plan.execute(
                tapconv.Arrays(
                    arrays.x.data_ptr(),
                    packed.address,
                    y=y.address,
                    workspace=workspace.address,
                    workspace_bytes=info.workspace_bytes,
                )
            )
            return y.intact() and workspace.intact() and y.bytes.tobytes() == expected

        with concurrent.futures.ThreadPoolExecutor(4) as callers:
            assert all(callers.map(compute, range(60))), text(p)
