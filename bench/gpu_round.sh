#!/bin/sh
# One round on a machine with a card: builds, checks, sanitizes and times the CUDA engine, each step with a time limit, and
# ends with a table.
#
#     bench/gpu_round.sh [--build FOLDER] [--results FOLDER] [STEP...]
#
#     build           the library, the command, check_gpu and cuda_tests, with all cores
#     cards           the tests of cuda_tests that need a card
#     check           check_gpu, CHECK_LAYERS random layers (default 1000) of seed SEED (1), at most CHECK_SECONDS (120)
#     repeat          check_gpu, every family REPEATS times (default 10000) on each of REPEAT_LAYERS (20) layers
#     sanitize        compute-sanitizer's memcheck, racecheck, initcheck and synccheck over SANITIZE_LAYERS (20) layers each
#     bench[:MODES]   every layer of bench/layers.suite; MODES, split by commas, are f32,tf32,f16,bf16 if not given
#     peers           bench/peers_cuda.py: beside PyTorch, where that is installed; PEERS has its options
#     FAMILIES=a,b    in the environment: which kernel families check, repeat and sanitize run
#
# Without steps: build cards check repeat sanitize bench. The status is 1 if a step failed; the steps after it run all the same.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-gpu
results=
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2; shift 2 ;;
    --results) results=$2; shift 2 ;;
    *) break ;;
    esac
done
results=${results:-$build/round}
mkdir -p "$results"
[ $# -gt 0 ] || set -- build cards check repeat sanitize bench
PATH=$PATH:/usr/local/cuda/bin
export PATH
failed=
summary=$results/summary.txt
: >"$summary"

# step NAME SECONDS COMMAND...: runs it with a time limit; its output goes to NAME.log.
step() {
    name=$1 limit=$2
    shift 2
    began=$(date +%s)
    timeout "$limit" "$@" >"$results/$name.log" 2>&1
    status=$?
    printf '%-20s %4d s  %s\n' "$name" $(($(date +%s) - began)) \
        "$([ $status = 0 ] && echo ok || echo "FAILED ($status)")" | tee -a "$summary"
    if [ $status != 0 ]; then
        failed=$name
        tail -n 40 "$results/$name.log"
    fi
    return $status
}

do_build() {
    step configure 60 cmake -S "$root" -B "$build" -G Ninja -DTAPCONV_CUDA=on &&
        step compile 420 cmake --build "$build" -j "$(nproc)" --target tapconv_cuda tapconv_cli check_gpu cuda_tests
}

checker() {
    find "$build" -type f -name check_gpu -perm -u+x | head -n 1
}

do_cards() {
    # shellcheck disable=SC2046 # names are words
    step cards 200 "$(dirname "$(checker)")/cuda_tests" $(sed -n 's/^TEST(\(card_.*\))$/\1/p' "$root"/tests/cuda/*.c)
    grep -E "^(passed|FAILED|Skipped)" "$results/cards.log"
}

do_check() {
    step check 300 "$(checker)" --seed "${SEED:-1}" --layers "${CHECK_LAYERS:-1000}" --seconds "${CHECK_SECONDS:-120}" \
        --threads "$(nproc)" ${FAMILIES:+--families "$FAMILIES"}
    tail -n 24 "$results/check.log"
}

do_repeat() {
    step repeat 300 "$(checker)" --seed "${SEED:-1}" --layers "${REPEAT_LAYERS:-20}" --repeats "${REPEATS:-10000}" \
        --threads "$(nproc)" ${FAMILIES:+--families "$FAMILIES"}
    tail -n 1 "$results/repeat.log"
}

do_sanitize() {
    if ! command -v compute-sanitizer >/dev/null; then
        echo "sanitize: compute-sanitizer is not on the PATH" | tee -a "$summary"
        failed=sanitize
        return
    fi
    for tool in memcheck racecheck initcheck synccheck; do
        # initcheck needs memory that nobody has filled.
        step $tool 180 compute-sanitizer --tool $tool --error-exitcode 9 "$(checker)" --seed "${SEED:-1}" \
            --layers "${SANITIZE_LAYERS:-20}" --seconds 60 --threads 4 --exact ${FAMILIES:+--families "$FAMILIES"}
        grep -E "ERROR SUMMARY|RACECHECK SUMMARY" "$results/$tool.log" | tail -n 1
    done
}

do_bench() {
    for mode in $(echo "$1" | tr , ' '); do
        step "bench-$mode" 200 sh -c '"$1" bench --suite "$2" --device cuda --math "$3" --json >"$4"' sh \
            "$build/tapconv" "$root/bench/layers.suite" "$mode" "$results/bench-$mode.jsonl"
    done
    python3 - "$results" "$1" <<'END'
import json
import sys
from pathlib import Path

folder, modes = Path(sys.argv[1]), sys.argv[2].split(",")
layers = {}
for mode in modes:
    path = folder / f"bench-{mode}.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        layers.setdefault(row["name"], {})[mode] = row
print(f"{'median us, kernel':<26}" + "".join(f"{mode:>22}" for mode in modes))
for name, rows in layers.items():
    cells = []
    for mode in modes:
        row = rows.get(mode)
        cells.append(f"{1e3 * row['median_ms']:10.1f} {row['kernel'].split('/')[0]:>11}" if row else f"{'-':>22}")
    print(f"{name:<26}" + "".join(cells))
END
}

do_peers() {
    # shellcheck disable=SC2086 # PEERS are words
    step peers 590 env TAPCONV_LIBRARY="$build/libtapconv.so" python3 "$root/bench/peers_cuda.py" \
        --output "$results/peers.jsonl" ${PEERS:-}
    tail -n 60 "$results/peers.log"
}

for wanted in "$@"; do
    case $wanted in
    build) do_build ;;
    cards) do_cards ;;
    check) do_check ;;
    repeat) do_repeat ;;
    sanitize) do_sanitize ;;
    peers) do_peers ;;
    bench) do_bench f32,tf32,f16,bf16 ;;
    bench:*) do_bench "${wanted#bench:}" ;;
    *)
        echo "no such step: $wanted" >&2
        exit 2
        ;;
    esac
done
echo
cat "$summary"
[ -z "$failed" ]
