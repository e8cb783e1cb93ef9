"""The test bed: real processes, a network that can fail, and waits that end."""
