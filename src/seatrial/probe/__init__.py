"""The probe: code of ours inside the training process. It observes, writes events, can stop.

Standard library plus whatever torch the user has. It never changes what a run computes, and a
fault of its own becomes a ``probe.error`` event.
"""
