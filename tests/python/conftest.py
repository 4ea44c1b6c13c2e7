"""Tests of the Python package, which must be installed (`make test` does it).

python -m pytest tests/python [--device cuda] [--results FILE]

--results writes what ran where as JSON: bench/results/python-CARD.json is from a GPU.
"""

import datetime
import json
import pathlib
import platform
import subprocess
import sys
import time

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "judges"), str(TESTS.parent / "bench")]
BEGAN = time.monotonic()


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="where tensors live: cpu or cuda")
    parser.addoption("--results", type=pathlib.Path, help="a JSON file to write")


def pytest_configure(config):
    # What results are compared with would have TF32's errors. Set before the tests are imported: PyTorch's own samples,
    # which some of them use, forbid changes of this flag.
    if config.getoption("--device", default="cpu") != "cpu":
        import torch

        torch.backends.cudnn.allow_tf32 = False


@pytest.fixture(scope="session")
def device(request):
    # Without tests/python on the command line this file is read too late to add an option.
    return request.config.getoption("--device", default="cpu")


def where(device):
    """The machine, and the versions that decide results."""
    import provenance
    import tapconv
    import torch

    found = {"device": device, "python": platform.python_version(), "torch": torch.__version__}
    if device != "cpu":
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        found |= {"card": torch.cuda.get_device_name(), "driver": driver, "cuda": torch.version.cuda}
        found["cudnn"] = torch.backends.cudnn.version()
    return found | {"tapconv": tapconv.__version__, "commit": provenance.commit()}


def pytest_terminal_summary(terminalreporter, config):
    file = config.getoption("--results", default=None)
    if file is None:
        return
    stats = terminalreporter.stats
    failed = [report.nodeid for report in stats.get("failed", []) + stats.get("error", [])]
    results = where(config.getoption("--device")) | {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": "python -m pytest " + " ".join(map(str, config.invocation_params.args)),
        "seconds": round(time.monotonic() - BEGAN),
        "passed": len(stats.get("passed", [])),
        "failed": len(failed),
        "skipped": len(stats.get("skipped", [])),
        "failures": failed,
    }
    file.write_text(json.dumps(results, indent=1) + "\n")
