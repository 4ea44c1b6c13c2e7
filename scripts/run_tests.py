"""Runs a build's CTest tests, and pytest where asked, and ends with one plain line: N passed, N failed, N skipped.

    python3 scripts/run_tests.py CTEST BUILD [PYTHON]
    python3 scripts/run_tests.py --sum RESULTS...

CTEST is the program, BUILD the build directory, PYTHON the interpreter that has pytest (without it pytest is not run).
With --sum nothing is run: the line counts what earlier runs left in their JUnit files.
The exit status is 1 if a test failed, a runner broke off, or no test ran.
"""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

TEST_TIMEOUT_S = 900


def outcome(case):
    tags = {child.tag for child in case}
    if tags & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in tags else "passed"


def count(results):
    return Counter(outcome(case) for case in ElementTree.parse(results).iter("testcase"))


def run(command, results, environment):
    """Runs one runner; what it counted, with one failure more if it failed and its counts do not say so."""
    results.unlink(missing_ok=True)
    status = subprocess.run(command, env=environment).returncode
    counts = count(results) if results.exists() else Counter()
    if status != 0 and not counts["failed"]:
        print(f"{command[0]} ended with status {status} and no failed test")
        counts["failed"] += 1
    return counts


def run_all(ctest, build, pythons):
    environment = dict(os.environ, TAPCONV_LIBRARY=str(build / "libtapconv.so"), TAPCONV_COMMAND=str(build / "tapconv"))
    results = build / "ctest.xml"
    command = [ctest, "--test-dir", build, "--output-on-failure", "--no-tests=error"]
    command += ["--parallel", str(os.cpu_count()), "--timeout", str(TEST_TIMEOUT_S), "--output-junit", results]
    counts = run(command, results, environment)
    for python in pythons:
        results = build / "pytest.xml"
        counts += run([python, "-m", "pytest", "-q", "tests", f"--junitxml={results}"], results, environment)
    return counts


def main():
    if sys.argv[1] == "--sum":
        counts = sum((count(results) for results in sys.argv[2:]), Counter())
    else:
        counts = run_all(sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3:])
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
    sys.exit(0 if counts["passed"] and not counts["failed"] else 1)


if __name__ == "__main__":
    main()
