"""Programs that run in the user's own interpreter, as files, and speak JSON lines."""
