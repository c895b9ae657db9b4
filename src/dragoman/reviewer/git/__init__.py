"""Questions to Git: `asking` runs Git, `repository` has the questions."""

from .asking import RepositoryError
from .repository import ChangedFiles, Repository

__all__ = ["ChangedFiles", "Repository", "RepositoryError"]
