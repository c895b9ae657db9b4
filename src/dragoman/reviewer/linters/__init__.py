"""External linters: runs them and reads their output."""
