"""The reviewer: reviews code by rules and linters, without a language model; `dragoman agent reviewer`."""

from .agent import Reviewer

__all__ = ["Reviewer"]
