"""The sandbox for commands, and the trial that tests it."""
