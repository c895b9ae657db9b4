"""Changes files: a change is made completely or not at all, even if the process is killed half way."""
