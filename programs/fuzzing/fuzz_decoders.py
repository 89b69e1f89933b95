"""Fuzz the decoders that take bytes with Atheris. Only a HarnessError may be raised.

    python programs/fuzzing/fuzz_decoders.py --seconds 60 --decoder avro --decoder roaring

The first inputs are in programs/fuzzing/inputs. Findings and new inputs are written to build/fuzz-decoders.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_MOST_BYTES = 4096
_MOST_MEGABYTES = 2048
_MOST_SECONDS = 20


def fuzz(name: str, seconds: int, seed: int, place: Path) -> None:
    """Fuzz one decoder, and end the process with a nonzero code if there is a finding."""
    import atheris

    with atheris.instrument_imports(include=["harness"]):
        from decoders import DECODERS, INPUTS, accepts
    decoder = DECODERS[name]
    learnt = place / name
    learnt.mkdir(parents=True, exist_ok=True)
    options = {
        "max_total_time": seconds,
        "seed": seed,
        "max_len": _MOST_BYTES,
        "rss_limit_mb": _MOST_MEGABYTES,
        "timeout": _MOST_SECONDS,
        "artifact_prefix": f"{place}/{name}-",
        "print_final_stats": 1,
    }
    flags = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([sys.argv[0], *flags, str(learnt), str(INPUTS / name)], lambda data: accepts(decoder, data) and None)
    atheris.Fuzz()


def replay(name: str, file: Path) -> None:
    """Decode one input again without Atheris. Its exception is not caught."""
    from decoders import DECODERS, accepts

    print("accepted" if accepts(DECODERS[name], file.read_bytes()) else "refused by a HarnessError")


def every(names: list[str], seconds: int, seed: int, place: Path) -> int:
    """Fuzz some decoders, each in a separate process, and return the exit code: 1 if one has a finding."""
    failed = []
    for name in names:
        command = [sys.executable, __file__, "--only", name, "--seconds", str(seconds), "--seed", str(seed)]
        ran = subprocess.run([*command, "--output", str(place)], capture_output=True, text=True, check=False)
        stats = dict(line[6:].split(": ") for line in ran.stderr.splitlines() if line.startswith("stat::"))
        runs = int(stats.get("number_of_executed_units", 0))
        print(f"{name}: {runs} inputs in {seconds} s, {'FINDING' if ran.returncode else 'fine'}", flush=True)
        if ran.returncode:
            failed.append(name)
            print(ran.stdout[-3000:] + ran.stderr[-3000:])
            for file in sorted(place.glob(f"{name}-*")):
                print(f"again: python programs/fuzzing/fuzz_decoders.py --only {name} --again {file}")
    return int(bool(failed))


def main() -> int:
    """Run the program and return the exit code: 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each decoder (60)")
    parser.add_argument("--seed", type=int, default=1, help="what inputs are drawn from (1)")
    parser.add_argument("--decoder", action="append", help="only this; may be given again")
    parser.add_argument("--only", help="this one decoder, in this process")
    parser.add_argument("--again", type=Path, help="with --only: one input, without Atheris")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "fuzz-decoders", help="where findings are left")
    options = parser.parse_args()
    if options.again is not None:
        replay(options.only, options.again)
    elif options.only is not None:
        fuzz(options.only, options.seconds, options.seed, options.output)
    else:
        names = options.decoder or sorted(path.name for path in (Path(__file__).parent / "inputs").iterdir())
        return every(names, options.seconds, options.seed, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
