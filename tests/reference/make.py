"""Compute the reference fits and write them to `fits.json`, one case a line.

    python tests/reference/make.py [NAME ...]

With names, only these cases are computed again. Do this only when a change of the numbers is intended:
`test_reference_fits.py` compares with this file. Floats are written by `repr`, so that they are read back exactly.
"""

import json
import sys
import time
from pathlib import Path

from cases import CASES, compute_case

FITS = Path(__file__).with_name("fits.json")


def main() -> None:
    """Compute the cases and write `fits.json`."""
    names = sys.argv[1:] or list(CASES)
    fits = json.loads(FITS.read_text(encoding="utf-8")) if FITS.exists() and sys.argv[1:] else {}
    for name in names:
        begin = time.process_time()
        fits[name] = compute_case(name)
        fits[name]["cpu_seconds"] = round(time.process_time() - begin, 3)
        fit = fits[name]
        outcome = fit.get("error") or f"{fit['status']} {fit['method']}, {fit['starts']} starts"
        print(f"{fit['cpu_seconds']:8.2f} s  {name}: {outcome}", flush=True)
    lines = [f"{json.dumps(name)}: {json.dumps(fits[name], ensure_ascii=False)}" for name in CASES if name in fits]
    FITS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(lines)} cases, {sum(fit['cpu_seconds'] for fit in fits.values()):.0f} CPU s")


if __name__ == "__main__":
    main()
