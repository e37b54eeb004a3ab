"""The parts of a judgement: outcome, findings, what was not judged, the closing sentence."""
