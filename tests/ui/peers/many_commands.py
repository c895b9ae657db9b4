"""Runs command lines one after the other in this process, as `dragoman` would, with a line after each."""

import json
import sys

from dragoman.cli import main

for number, arguments in enumerate(json.loads(sys.argv[1])):
    try:
        code = main(arguments)
    except SystemExit as exc:
        code = exc.code
    sys.stdout.flush()
    print(f"end of {number}: {code}", flush=True)
