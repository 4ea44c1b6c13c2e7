"""What the CUDA engine's shared object gives away and asks for: check_engine.py ENGINE NM READELF"""

import re
import subprocess
import sys

ENTRY = "tapconv_cuda_engine_entry"
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0"}


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    engine, nm, readelf = sys.argv[1:]
    symbols = output_of(nm, "--dynamic", "--defined-only", "--format=posix", engine)
    exported = {line.split()[0] for line in symbols.splitlines()}
    dynamic = output_of(readelf, "--dynamic", engine)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    needed = {name for name in needed if not name.startswith("ld-linux")}
    faults = [f"{name} is exported" for name in sorted(exported - {ENTRY})]
    faults += [f"{name} is not exported" for name in {ENTRY} - exported]
    faults += [f"{name} is needed" for name in sorted(needed - SYSTEM)]
    if "TEXTREL" in dynamic:
        faults.append("there are text relocations")
    print("\n".join(faults) or "one symbol, and the system's libraries alone")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
