"""The files a coder works on: edits, patches, and the journal that undoes them."""
