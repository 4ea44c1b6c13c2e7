"""Which sources were measured."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


def commit():
    """The commit, with "+changes" if what is measured differs; $TAPCONV_COMMIT where the tree is only a copy."""

    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()

    if given := os.environ.get("TAPCONV_COMMIT"):
        return given
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "include", "bench", "CMakeLists.txt")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+changes" if changed else "")
