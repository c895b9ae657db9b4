"""Our own checks: pure functions from a file to its findings, which need no other programs."""
