"""The engines that are timed. Each module offers

    versions()                            {name: version} of what it runs
    formulations(layer, data, threads)    ways to state the layer, as Formulation objects

and is imported in a process of its own: their thread pools do not know each other.
"""

import dataclasses
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass
class Run:
    run: Callable[[], object]  # computes y once
    result: Callable[[], np.ndarray]  # y of the latest run as (N, C_out, T_out)
    about: str = ""  # what the engine says of itself, for example its kernel's name


@dataclasses.dataclass
class Formulation:
    name: str
    layout: str  # of what goes in and comes out: "ncl" or "nlc"
    make: Callable[[], Run]
