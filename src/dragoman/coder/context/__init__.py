"""The input of a model: instructions, the conversation so far, and its compaction."""
