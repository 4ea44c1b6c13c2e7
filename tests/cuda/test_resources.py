"""What the compiler made of the CUDA engine's hot kernels: registers, local memory, and instructions that matter."""

import functools
import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("TAPCONV_LIBRARY", ROOT / "build" / "libtapconv.so"))
ENGINE = LIBRARY.parent / "libtapconv_cuda.so"
TOOLS = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin"

pytestmark = pytest.mark.skipif(not ENGINE.exists(), reason="this build has no CUDA engine")


def hot_kernels():
    lines = (Path(__file__).parent / "hot_kernels.txt").read_text().splitlines()
    return [tuple(line.split()) for line in lines if line and not line.startswith("#")]


def dump(*options):
    environment = dict(os.environ, PATH=f"{TOOLS}:{os.environ['PATH']}")
    done = subprocess.run([TOOLS / "cuobjdump", *options, ENGINE], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_kernel(mangled, name):
    return re.search(rf"{len(name)}{name}(?![a-z0-9_])", mangled) is not None


@pytest.fixture(scope="module")
def resources():
    """{(machine code, mangled name): {"REG": ..., "STACK": ..., "LOCAL": ...}}"""
    found, machine = {}, None
    lines = dump("--dump-resource-usage").splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if match := re.match(r"arch = (\w+)", line):
            machine = match[1]
        if match := re.match(r"\s*Function (\w+):", line):
            found[machine, match[1]] = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", following)}
    return found


@pytest.mark.parametrize("machine, name, instruction", hot_kernels())
def test_no_spills_and_no_local_memory(resources, machine, name, instruction):
    hot = {key: used for key, used in resources.items() if key[0] == machine and is_kernel(key[1], name)}
    assert hot
    assert {key: used for key, used in hot.items() if used["STACK"] != 0 or used["LOCAL"] != 0} == {}


@functools.cache
def machine_code(machine):
    parts = re.split(r"\bFunction : (\w+)\n", dump("-sass", "-arch", machine))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("machine, name, instruction", hot_kernels())
def test_instructions(machine, name, instruction):
    hot = {mangled: code for mangled, code in machine_code(machine).items() if is_kernel(mangled, name)}
    assert hot
    assert [mangled for mangled, code in hot.items() if not re.search(rf"\b{instruction}\b", code)] == []
