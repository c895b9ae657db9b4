"""Where the person writes: the input, its completions and its history."""
