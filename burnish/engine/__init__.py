"""Engines: token ids in, token ids and log-probabilities out. One file a backend."""
