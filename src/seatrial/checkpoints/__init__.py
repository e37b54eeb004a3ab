"""Checks on saved checkpoints: files in, findings out. No torch, nothing is unpickled."""
