"""Runs every fuzzer of a build for a while, from its committed seeds, and fails at the first crash.

    python3 scripts/fuzz.py BUILD SECONDS

A fuzzer is an executable BUILD/fuzz_NAME with seeds in tests/fuzz/seeds/NAME. What it learns is kept in
BUILD/corpus/NAME, so that the next run goes on from there; a crashing input is left in BUILD as crash-NAME-HASH.
"""

import os
import subprocess
import sys
from pathlib import Path

INPUT_TIMEOUT_S = 10
MEMORY_LIMIT_MB = 2048


def main():
    build, seconds = Path(sys.argv[1]), sys.argv[2]
    fuzzers = sorted(path for path in build.glob("fuzz_*") if path.is_file() and os.access(path, os.X_OK))
    if not fuzzers:
        sys.exit(f"tapconv: there is no fuzzer in {build}")
    for fuzzer in fuzzers:
        name = fuzzer.name.removeprefix("fuzz_")
        corpus = build / "corpus" / name
        corpus.mkdir(parents=True, exist_ok=True)
        seeds = Path("tests/fuzz/seeds") / name
        command = [fuzzer.absolute(), corpus, *([seeds] if seeds.is_dir() else [])]
        command += [f"-max_total_time={seconds}", f"-timeout={INPUT_TIMEOUT_S}", f"-rss_limit_mb={MEMORY_LIMIT_MB}"]
        command += [f"-artifact_prefix={build}/crash-{name}-", "-print_final_stats=1", "-verbosity=0"]
        print(f"{fuzzer.name} for {seconds} s", flush=True)
        if subprocess.run(command).returncode != 0:
            sys.exit(f"tapconv: {fuzzer.name} found an input that fails; it is in {build}")
    print(f"{len(fuzzers)} fuzzers, {seconds} s each, found nothing")


if __name__ == "__main__":
    main()
