"""The command line, thin over functions that live elsewhere."""
