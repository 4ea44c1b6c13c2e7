"""Brings a virtual environment in the tree up to date with a requirements file.

    python3 scripts/venv.py DIRECTORY REQUIREMENTS

A stamp in the environment holds what was installed, so that a second call costs nothing, a changed file installs
again, and an interrupted installation is repeated. Two calls at once wait for each other.
"""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path


def fail(sentence):
    sys.exit(f"tapconv: {sentence}")


def run(command, purpose):
    if subprocess.run(command).returncode != 0:
        fail(f"{purpose} failed; the lines above say why")


def main():
    directory, requirements = Path(sys.argv[1]).absolute(), Path(sys.argv[2])
    with open(__file__) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        bring_up_to_date(directory, requirements)


def bring_up_to_date(directory, requirements):
    python = directory / "bin" / "python"
    # An environment knows its own path and its interpreter's: one that was moved or lost its interpreter is made anew.
    home = directory / "home"
    identity = f"{directory} {sys.version}"
    if not (home.exists() and home.read_text() == identity and python.exists()):
        try:
            import ensurepip  # noqa: F401  Debian leaves it out of python3 proper
        except ImportError:
            fail("Python's venv module is missing; install it (on Debian and Ubuntu: apt-get install python3-venv)")
        run([sys.executable, "-m", "venv", "--clear", directory], f"making the Python environment {directory.name}")
        home.write_text(identity)

    stamp = directory / f"installed-{requirements.parent.name}-{requirements.stem}"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"tapconv: installing {requirements} into {directory.name}", flush=True)
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--requirement", requirements]
    run(pip, f"installing {requirements}")
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
