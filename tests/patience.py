"""How long a test waits for what has to happen."""

PATIENCE = 150.0  # seconds; nothing takes that long unless it hangs, however busy the machine
