"""The user's input, its completions and its history."""
