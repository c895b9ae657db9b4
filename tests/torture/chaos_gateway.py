"""`dragoman` with a clock that jumps: `python chaos_gateway.py FILE serve …`; FILE has the seconds it is off."""

import mmap
import struct
import sys
import time

with open(sys.argv.pop(1), "rb") as file:
    offset = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
true_time = time.time
time.time = lambda: true_time() + struct.unpack_from("d", offset)[0]

from dragoman.__main__ import main  # noqa: E402 - after the clock is another

sys.exit(main())
