"""Audio input, where the build has libsndfile."""

import struct
import wave

import numpy as np
import pytest
from calling import call, call_json, expected, relative_error, save

needs_sndfile = pytest.mark.usefixtures("with_sndfile")


def has_sndfile():
    return call_json("info")[0]["libsndfile"]


@pytest.fixture
def with_sndfile():
    if not has_sndfile():
        pytest.skip("built without libsndfile")


@pytest.fixture
def without_sndfile():
    if has_sndfile():
        pytest.skip("built with libsndfile")


def write_wav(path, samples):
    """samples: (channels, T) in -1..1"""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(samples.shape[0])
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes((samples.T * 32768).round().astype("<i2").tobytes())
    return path


@pytest.fixture
def sound(tmp_path, random):
    samples = np.round(random.uniform(-1, 1, (2, 500)) * 32000) / 32768
    w = random.standard_normal((4, 2, 5)).astype(np.float32)
    return samples, write_wav(tmp_path / "sound.WAV", samples), w, save(tmp_path / "w.npy", w)


@needs_sndfile
@pytest.mark.parametrize("layout", ["ncl", "nlc"])
def test_channels_first(tmp_path, sound, layout):
    samples, path, w, w_file = sound
    call("run", "-x", path, "-w", w_file, "--causal", "--layout", layout, "-o", tmp_path / "y.npy")
    y = np.load(tmp_path / "y.npy")
    assert relative_error(y if layout == "ncl" else y.T, expected(samples[None], w, padding=(4, 0))[0]) < 1e-6


@needs_sndfile
def test_check_bench_explain(sound):
    words = ["-x", sound[1], "-w", sound[3]]
    assert call_json("check", *words)[0]["pass"] is True
    assert call_json("bench", *words, "--runs", 3)[0]["rel_l2"] < 1e-6
    assert call_json("explain", *words)[0]["out_shape"] == [4, 496]


@needs_sndfile
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"RIFF",
        b"RIFF\xff\xff\xff\xffWAVE",
        b"\x93NUMPY",
        b"RIFF$\0\0\0WAVEfmt " + b"\xff" * 100,
        b"RIFF$\0\0\0WAVEfmt \x10\0\0\0" + struct.pack("<HHIIHH", 1, 0, 16000, 0, 0, 16) + b"data\xff\xff\xff\x7f",
    ],
)
def test_broken_audio(tmp_path, layer, content):
    path = tmp_path / "broken.wav"
    path.write_bytes(content)
    failed = call("run", "-x", path, "-w", layer["w_file"], "-o", tmp_path / "y.npy", status=2)
    assert "-x" in failed.err and "broken.wav" in failed.err


@needs_sndfile
def test_header_that_promises_more_than_there_is(tmp_path, sound):
    content = bytearray(sound[1].read_bytes())
    content[40:44] = b"\xff\xff\xff\x7f"
    path = tmp_path / "long.wav"
    path.write_bytes(content)
    assert call_json("explain", "-x", path, "-w", sound[3])[0]["out_shape"] == [4, 496]


@pytest.mark.usefixtures("without_sndfile")
def test_without_libsndfile(tmp_path, sound):
    failed = call("run", "-x", sound[1], "-w", sound[3], "-o", tmp_path / "y.npy", status=2)
    assert "-x" in failed.err and "without libsndfile" in failed.err


def test_audio_is_for_x_only(sound):
    assert "-w" in call("check", "-x", sound[3], "-w", sound[1], status=2).err
