import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from calling import save


@pytest.fixture
def random():
    return np.random.default_rng(20261130)


@pytest.fixture
def layer(tmp_path, random):
    """Files of a small layer: x (2, 6, 40), w (8, 6, 3), b, gamma, beta (8)."""
    shapes = {"x": (2, 6, 40), "w": (8, 6, 3), "b": (8,), "gamma": (8,), "beta": (8,)}
    arrays = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for name, array in list(arrays.items()):
        arrays[f"{name}_file"] = save(tmp_path / f"{name}.npy", array)
    return arrays
