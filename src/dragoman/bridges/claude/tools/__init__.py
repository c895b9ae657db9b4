"""Claude's tools as the protocol shows them: `shown` before they run, `outcome` afterwards, `plans` beside them."""
