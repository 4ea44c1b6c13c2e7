"""Compares the symbols that the installed libraries give away with the functions that the header declares.

    check_symbols.py HEADER LIBRARY_FOLDER NM READELF

The shared library exports exactly these and has no text relocations. The static library, where hidden symbols are
visible to the linker, defines no global name that does not begin with tapconv_.
"""

import re
import subprocess
import sys
from pathlib import Path


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def defined(nm_output):
    return {line.split()[0] for line in nm_output.splitlines() if len(line.split()) > 1}


def main():
    header, folder, nm, readelf = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    # A function of the header is a name, an opening parenthesis and, before it, TAPCONV_API since the last semicolon.
    code = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    code = re.sub(r"^#.*$", "", code, flags=re.MULTILINE)
    declared = set(re.findall(r"\bTAPCONV_API\b[^;(]*?\b(tapconv_\w+)\s*\(", code))

    shared, static = folder / "libtapconv.so", folder / "libtapconv.a"
    exported = defined(output_of(nm, "--dynamic", "--defined-only", "--format=posix", shared))
    leaked = defined(output_of(nm, "--extern-only", "--defined-only", "--format=posix", static))
    foreign = {name for name in leaked if not name.startswith("tapconv_")}
    faults = [f"{name} is declared but not exported" for name in sorted(declared - exported)]
    faults += [f"{name} is exported but not declared" for name in sorted(exported - declared)]
    faults += [f"{name} is a global name of the static library" for name in sorted(foreign)]
    if "TEXTREL" in output_of(readelf, "--dynamic", shared):
        faults.append("the shared library has text relocations")
    if not declared or not leaked:
        faults.append("no symbols were found, so nothing was compared")
    print("\n".join(faults) or f"{len(declared)} functions, each declared and exported")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
