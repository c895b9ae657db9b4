"""The sandbox that commands run in, and the trial that shows it holds."""
