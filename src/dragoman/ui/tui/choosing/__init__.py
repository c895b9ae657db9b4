"""Lists to choose from: agents, sessions, options, waiting prompts."""
