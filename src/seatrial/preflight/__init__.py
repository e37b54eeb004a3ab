"""Rules on a runner and a trial before launch: parsed input in, findings out."""
