"""Runs a build's CTest tests, and pytest where asked, and ends with one plain line: N passed, N failed, N skipped.

    python3 scripts/run_tests.py CTEST BUILD [PYTHON]

CTEST is the program, BUILD the build directory, PYTHON the interpreter that has pytest (without it pytest is not run).
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


def run(command, results, environment):
    """Runs one runner; what it counted, with one failure more if it failed and its counts do not say so."""
    results.unlink(missing_ok=True)
    status = subprocess.run(command, env=environment).returncode
    counts = Counter()
    if results.exists():
        cases = ElementTree.parse(results).iter("testcase")
        counts.update(outcome(case) for case in cases)
    if status != 0 and not counts["failed"]:
        print(f"{command[0]} ended with status {status} and no failed test")
        counts["failed"] += 1
    return counts


def main():
    ctest, build = sys.argv[1], Path(sys.argv[2]).resolve()
    environment = dict(os.environ, TAPCONV_LIBRARY=str(build / "libtapconv.so"), TAPCONV_COMMAND=str(build / "tapconv"))
    results = build / "ctest.xml"
    command = [ctest, "--test-dir", build, "--output-on-failure", "--no-tests=error"]
    command += ["--parallel", str(os.cpu_count()), "--timeout", str(TEST_TIMEOUT_S), "--output-junit", results]
    counts = run(command, results, environment)
    for python in sys.argv[3:]:
        results = build / "pytest.xml"
        counts += run([python, "-m", "pytest", "-q", "tests", f"--junitxml={results}"], results, environment)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
    sys.exit(0 if counts["passed"] and not counts["failed"] else 1)


if __name__ == "__main__":
    main()
