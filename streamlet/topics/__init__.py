"""Topics an app needs: which are there, which are missing, which cannot be used."""
