"""Bytes to core values: events, records, trials, commands, the machine."""
