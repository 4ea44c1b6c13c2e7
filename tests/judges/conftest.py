"""The outside judges: the library against programs that this project did not write.

$TAPCONV_LIBRARY       the library to judge; default build/libtapconv.so
$TAPCONV_JUDGES_SCALE  how many times the usual number of generated problems; default 1
$TAPCONV_JUDGES_SEED   another seed for all generated problems and data
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import judging
import tapconv_ctypes
import torch


def pytest_report_header(config):
    version = tapconv_ctypes.library().tapconv_version().decode()
    return (
        f"tapconv {version}, {', '.join(tapconv_ctypes.isas())}; PyTorch {torch.__version__}; "
        f"TAPCONV_JUDGES_SEED={judging.SEED} TAPCONV_JUDGES_SCALE={judging.SCALE:g}"
    )
