"""Rules about what an agent may do: reads, compares and explains them."""
