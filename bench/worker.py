"""A process that times one engine, turn by turn. Between its turns it is stopped by the process that asks."""

import contextlib
import ctypes
import gc
import importlib
import math
import signal
import sys
import time
import traceback

import data as layer_data

CHOICE_SECONDS, CHOICE_RUNS, CHOICE_RUNS_SLOW = 0.1, 7, 2  # of choosing among formulations
HOPELESS = 1.5  # times the fastest with one thread count: not tried with the next
WARM_SECONDS = 0.1  # a run longer than this needs no run before it: its data is beyond the caches
MOST_RUNS = 3000  # in a turn
WRONG = 1e-4  # relative L2 error of a result that counts as wrong
PR_SET_PDEATHSIG = 1


def _timed(run, seconds, most):
    times, clock = [], time.perf_counter
    end = clock() + seconds
    while True:
        start = clock()
        run()
        now = clock()
        times.append(now - start)
        if now >= end or len(times) >= most:
            return times


def _quick(run):
    """Seconds of a run, the least of a few: enough to choose by."""
    times = _timed(run, CHOICE_SECONDS, CHOICE_RUNS)
    while len(times) < CHOICE_RUNS_SLOW:
        times += _timed(run, 0, 1)
    return min(times)


class Worker:
    def __init__(self, name):
        self.engine = importlib.import_module(f"engines.{name}_engine")
        self.layer = self.data = None
        self.slots = {}  # name: (Run, seconds of a run)
        self.before = {}  # formulation: (layout, milliseconds) with the thread count before

    def versions(self):
        return self.engine.versions()

    def ceilings(self, threads):
        return self.engine.ceilings(threads)

    def _try(self, formulation, truth):
        tried = {"name": formulation.name, "layout": formulation.layout}
        try:
            made = formulation.make()
            made.run()
            tried["rel_l2"] = layer_data.relative_error(made.result(), truth)
            if not tried["rel_l2"] <= WRONG:
                return tried | {"failure": f"wrong result, relative L2 error {tried['rel_l2']:.1e}"}, None
            tried["quick_ms"] = 1e3 * _quick(made.run)
            return tried | {"about": made.about}, made
        except Exception as failure:  # an engine that cannot do a layer is a result, too
            sentence = str(failure).strip().splitlines()
            return tried | {"failure": f"{type(failure).__name__}: {sentence[0][:200] if sentence else ''}"}, None

    def prepare(self, layer, threads, truth):
        """Tries every formulation; the fastest of each layout is kept as a slot. Returns what was tried."""
        self.slots = {}
        if self.layer != layer:
            self.layer, self.data, self.before = layer, layer_data.make(layer), {}
        tried, best = [], {}
        for formulation in self.engine.formulations(layer, self.data, threads):
            if self._is_hopeless(formulation):
                continue
            report, made = self._try(formulation, truth)
            tried.append(report)
            if made and report["quick_ms"] < best.get(formulation.layout, math.inf):
                best[formulation.layout] = report["quick_ms"]
                self.slots[formulation.layout] = (made, 1e-3 * report["quick_ms"])
            del made
            gc.collect()
        self.before = {t["name"]: (t["layout"], t.get("quick_ms", math.inf)) for t in tried}
        return tried

    def _is_hopeless(self, formulation):
        if formulation.name not in self.before:
            return bool(self.before)
        layout, milliseconds = self.before[formulation.name]
        return milliseconds > HOPELESS * min(ms for other, ms in self.before.values() if other == layout)

    def prepare_alone(self, threads):
        """tapconv only: one more slot, "alone", the layer's convolution without norm and activation."""
        made = self.engine.make(self.engine.without_norm_and_activation(self.layer), self.data, threads)
        self.slots["alone"] = (made, _quick(made.run))

    def turn(self, slot, seconds):
        """Times of runs, in seconds."""
        made, estimate = self.slots[slot]
        if estimate < WARM_SECONDS:
            _timed(made.run, min(0.02, seconds / 4), MOST_RUNS)
        return _timed(made.run, seconds, MOST_RUNS)

    def repeat(self, slot, count):
        """Times of exactly `count` runs."""
        made, _ = self.slots[slot]
        _timed(made.run, math.inf, 200)
        return _timed(made.run, math.inf, count)

    def release(self):
        self.slots = {}
        gc.collect()


def serve(pipe, name):
    """Answers (method, arguments) with (True, result) or (False, sentence), until None comes."""
    if sys.platform == "linux":  # a stopped process would outlive the one that stopped it
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        worker = Worker(name)
        pipe.send((True, worker.versions()))
    except Exception:
        pipe.send((False, traceback.format_exc()))
        return
    gc.disable()
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while (asked := pipe.recv()) is not None:
            method, arguments = asked
            try:
                answer = (True, getattr(worker, method)(*arguments))
            except Exception:
                answer = (False, traceback.format_exc())
            pipe.send(answer)
