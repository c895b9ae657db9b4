"""What a model is told: instructions, the conversation so far, and how it is made shorter."""
