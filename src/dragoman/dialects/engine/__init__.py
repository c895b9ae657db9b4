"""The engine with which every dialect is translated."""
