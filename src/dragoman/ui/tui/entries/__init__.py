"""What stands in a transcript, as widgets: one for each entry of the view model."""
