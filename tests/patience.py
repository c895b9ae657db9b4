"""How long a test waits for what has to happen."""

import os

# Seconds; nothing takes that long unless it hangs, however busy the machine.  In `make mutants` many things hang.
PATIENCE = float(os.environ.get("DRAGOMAN_TEST_PATIENCE", "150"))
