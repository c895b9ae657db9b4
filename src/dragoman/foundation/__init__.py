"""Parts that every other package may use: owning tasks, opened places, programs, destinations, comparing texts."""
