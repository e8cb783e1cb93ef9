"""What a store's changelog holds and how a copy is rebuilt from it."""
