"""The held-out evaluation: frozen cases, answers of a model, results of a validator, gates."""
