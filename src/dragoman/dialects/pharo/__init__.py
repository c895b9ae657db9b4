"""D0, the dialect of the Pharo specification."""
