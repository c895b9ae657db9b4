"""One session as a person sees it, for every screen: a pure fold of what happens, and what a person can ask for.

`ConversationModel.apply` takes an event and gives what changed, so that a screen repaints that alone.  The model
has no clock but the times that events carry, and the cases in `tests/ui/cases` hold every implementation of it to
one meaning.
"""
