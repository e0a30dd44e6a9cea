#!/usr/bin/env bash
# Build what is shipped, check it, install it into an empty environment, and run the demo there.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$python" -m hatchling build -d "$out/dist" >/dev/null
"$python" -m twine check --strict "$out"/dist/*
"$python" -m zipfile -l "$out"/dist/*.whl | grep -E 'serve/page/index.html|report/charts.js|libkernels|gallery.toml|py.typed'
"$python" -m venv "$out/empty"
wheel=$(ls "$out"/dist/*.whl)
"$out/empty/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel[plot,serve]"
cd "$out"
empty/bin/weakform demo --out demo
ls demo
empty/bin/weakform serve --no-browser >address.txt &
server=$!
for _ in $(seq 50); do [ -s address.txt ] && break; sleep 0.1; done
empty/bin/python - "$(head -1 address.txt)" <<'PY'
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as answer:
    assert b"<title>weakform</title>" in answer.read()
print("the page is served")
PY
kill -INT $server
wait $server || true
echo "package: good"
