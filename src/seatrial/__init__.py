"""seatrial proves a model-training setup before money is spent on it.

Nothing heavy is imported here: this package is also imported inside the training process (by the
probe's bootstrap) and by the detached supervisor, on any Python from 3.9 and with the standard
library alone.
"""

__version__ = "0.1.0"
