"""What is saved of a damaged database, and how it is put in place."""
