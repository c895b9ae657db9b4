"""How files are changed: all of a change or nothing, also when the process is killed half way."""
