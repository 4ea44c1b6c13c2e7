"""Real models before and after tapconv.replace, on a recording of speech: results, errors against float64, times.

    pip install -r examples/pytorch/real_models_requirements.txt
    python examples/pytorch/real_models.py [NAMES] [--threads N] [--report] [--markdown]

torchfcpe, silero-vad and torchcrepe run with the weights that their packages ship, encodec and demucs with seeded
random ones, since theirs must be downloaded. `end to end` is the largest difference between what the user gets before
and after.
"""

import argparse
import copy
import dataclasses
import platform
import statistics
import sys
import time
import types
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tapconv
import torch
import torch.nn.functional as F
from torch import nn

RECORDING = Path(__file__).resolve().parents[1] / "data" / "speech.wav"
RATE = 16000
SEED = 1


@dataclasses.dataclass
class Case:
    """A model; what it is called with in the timed runs; and what its user gets in the end, in which unit."""

    model: nn.Module
    x: tuple
    answer: Callable[[], torch.Tensor]
    unit: str
    weights: str


def recording(seconds: float = 1e9) -> torch.Tensor:
    """(1, samples) in [-1, 1), 16,000 a second."""
    with wave.open(str(RECORDING)) as file:
        assert file.getframerate() == RATE and file.getnchannels() == 1 and file.getsampwidth() == 2
        frames = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return torch.from_numpy(frames.astype(np.float32) / 32768)[None, : int(seconds * RATE)]


def without_torchaudio() -> None:
    """Lets packages be imported that import torchaudio for files and resampling, which nothing here needs."""
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError):
        empty = types.ModuleType("torchaudio")
        empty.transforms = types.ModuleType("torchaudio.transforms")
        empty.transforms.Resample = None
        sys.modules |= {"torchaudio": empty, "torchaudio.transforms": empty.transforms}


# ----------------------------------------------------------------------------------------------------------- the models


def fcpe() -> Case:
    """Pitch by a conformer: Conv1d, GroupNorm, LeakyReLU in front, depthwise convolutions of 31 taps inside."""
    import torchfcpe

    infer = torchfcpe.spawn_bundled_infer_model(device="cpu")
    audio = recording()[..., None]
    mel = infer.wav2mel(audio, RATE)
    return Case(infer.model, (mel,), lambda: infer(audio, RATE), "Hz", "shipped")


class Silero(nn.Module):
    """silero-vad at 16 kHz as its package describes it (tinygrad_model.py): probability of speech every 512 samples."""

    CHUNK, CONTEXT, PAD, BINS = 512, 64, 64, 129

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 2 * self.BINS, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(self.BINS, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def chunk(self, x, state):
        x = self.stft_conv(F.pad(x, (0, self.PAD), "reflect").unsqueeze(1))
        x = (x[:, : self.BINS] ** 2 + x[:, self.BINS :] ** 2).sqrt()
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = conv(x).relu()
        state = self.lstm_cell(x.squeeze(-1), state)
        return self.final_conv(state[0].unsqueeze(-1).relu()).sigmoid().mean(2), state

    def forward(self, audio):
        """(1, samples) -> (1, chunks)"""
        audio = F.pad(audio, (self.CONTEXT, -audio.shape[1] % self.CHUNK))
        state, found = None, []
        for start in range(0, audio.shape[1] - self.CONTEXT, self.CHUNK):
            probability, state = self.chunk(audio[:, start : start + self.CONTEXT + self.CHUNK], state)
            found.append(probability)
        return torch.cat(found, 1)


def silero() -> Case:
    """Voice activity, 32 ms at a time. The package ships a compiled model, in which nothing can be replaced: its
    weights go into the layers above, which must give the same probabilities."""
    import silero_vad

    shipped = silero_vad.load_silero_vad()
    names = {"stft.forward_basis_buffer": "stft_conv.weight"}
    for i in range(4):
        names |= {f"encoder.{i}.reparam_conv.{kind}": f"conv{i + 1}.{kind}" for kind in ("weight", "bias")}
    for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        names[f"decoder.rnn.{kind}"] = f"lstm_cell.{kind}"
    names |= {f"decoder.decoder.2.{kind}": f"final_conv.{kind}" for kind in ("weight", "bias")}
    model = Silero().eval()
    model.load_state_dict({names[name]: tensor for name, tensor in shipped._model.state_dict().items()})
    audio = recording()
    assert torch.allclose(model(audio), shipped.audio_forward(audio, sr=RATE), atol=1e-4), "not the shipped model"
    return Case(model, (audio,), lambda: model(audio), "probability", "shipped")


def crepe(capacity: str, seconds: float) -> Case:
    """Pitch by a CNN whose layers are nn.Conv2d of one column, 64 taps each; the audio in frames of 1024 samples."""
    without_torchaudio()
    import torchcrepe

    audio = recording(seconds)
    torchcrepe.load.model("cpu", capacity)
    model = torchcrepe.infer.model
    frames = torch.cat(list(torchcrepe.preprocess(audio, RATE, hop_length=160)))

    def pitch():
        probabilities = model(frames).reshape(1, -1, torchcrepe.PITCH_BINS).transpose(1, 2)
        return torchcrepe.postprocess(probabilities, decoder=torchcrepe.decode.weighted_argmax)[0]

    return Case(model, (frames,), pitch, "Hz", "shipped")


def encodec(fold: bool) -> Case:
    """Meta's audio codec at 24 kHz: weight_norm by hooks, convolutions behind pads of computed length, an LSTM. `fold`
    takes weight_norm away first, as one does before inference: the weights are then there instead of computed."""
    without_torchaudio()
    from encodec import EncodecModel

    torch.manual_seed(SEED)
    model = EncodecModel.encodec_model_24khz(pretrained=False).eval()
    network = nn.Sequential(model.encoder, model.decoder)
    if fold:
        for module in network.modules():
            if hasattr(module, "weight_g"):
                nn.utils.remove_weight_norm(module)
    audio = recording()[None]
    return Case(network, (audio,), lambda: network(audio), "amplitude", "seeded")


def demucs() -> Case:
    """Source separation on the waveform, Demucs v3: Conv1d, GroupNorm, GELU, GLU in dilated residual branches."""
    from demucs.demucs import Demucs

    torch.manual_seed(SEED)
    model = Demucs(sources=["drums", "bass", "other", "vocals"], channels=32).eval()
    audio = recording(3)[None].expand(1, 2, -1).contiguous()
    return Case(model, (audio,), lambda: model(audio), "amplitude", "seeded")


CASES = {
    "fcpe": fcpe,
    "silero": silero,
    "crepe-tiny": lambda: crepe("tiny", 7),
    "crepe-full": lambda: crepe("full", 0.3),
    "encodec": lambda: encodec(fold=False),
    "encodec-folded": lambda: encodec(fold=True),
    "demucs": demucs,
}


# ------------------------------------------------------------------------------------------------------------ comparing


def times(models: list[nn.Module], x: tuple, runs: int, threads: int) -> list[float]:
    """The median time of a call of each, in ms, by turns; of one thread the processor's, which is disturbed less."""
    taken = [[] for _ in models]
    clock = time.process_time if threads == 1 else time.perf_counter
    for _ in range(runs + 1):
        for model, found in zip(models, taken, strict=True):
            start = clock()
            model(*x)
            found.append(1e3 * (clock() - start))
    return [statistics.median(found[1:]) for found in taken]


@torch.no_grad()
def compare(name: str, options) -> tuple:
    case = CASES[name]()
    torch.set_num_threads(options.threads)
    before = case.answer()
    original = copy.deepcopy(case.model)
    _, report = tapconv.replace(case.model)
    difference = (case.answer() - before).abs().max().item()
    verified = tapconv.verify(case.model, original, case.x)
    theirs, ours = times([original, case.model], case.x, options.runs, options.threads)
    if options.report:
        print(f"\n{name}\n{report}\n{verified}\n")
    assert verified.ok, f"{name}: {verified}"
    output = verified.outputs[0]
    chains = sum(" + " in entry.what for entry in report.replaced)
    errors = f"{output.original.rel_l2:.1e} / {output.model.rel_l2:.1e}"
    layers = len(report.replaced) + sum("onv" in entry.what for entry in report.left)
    counts = f"{len(report.replaced)} of {layers}, {chains} in chains"
    speed = f"{theirs / ours:.2f}"
    return name, case.weights, counts, errors, f"{difference:.1e} {case.unit}", f"{theirs:.1f}", f"{ours:.1f}", speed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=7, help="timed calls of each model")
    parser.add_argument("--report", action="store_true", help="prints what replace and verify say")
    parser.add_argument("--markdown", action="store_true", help="prints the table as Markdown")
    options = parser.parse_args()
    without_torchaudio()
    heads = ("model", "weights", "replaced", "rel L2 before / after", "end to end", "ms before", "ms after", "times")
    rows = [compare(name, options) for name in options.names]
    versions = f"tapconv {tapconv.__version__}, PyTorch {torch.__version__}"
    print(f"{versions}, {platform.machine()}, {options.threads} thread(s)")
    if options.markdown:
        rows = [heads, ["---"] * len(heads), *rows]
        print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    else:
        widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
        print("\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in [heads, *rows]))


if __name__ == "__main__":
    main()
