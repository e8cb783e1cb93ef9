"""Analytical readers over the state at one consistent cut."""
