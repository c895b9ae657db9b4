"""Lists to choose from: agents, sessions, options, prompts that wait."""
