"""Tests of the Python package, which must be installed (`make test` does it).

python -m pytest tests/python [--device cuda]
"""

import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "judges")]


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="where tensors live: cpu or cuda")


@pytest.fixture(scope="session")
def device(request):
    # Without tests/python on the command line this file is read too late to add an option.
    return request.config.getoption("--device", default="cpu")
