"""What stands between a session and a screen: it tells the view model what happens and does what a person asks for.

No toolkit: a screen gives functions that hear of changes, and calls `ConversationDriver`.
"""
