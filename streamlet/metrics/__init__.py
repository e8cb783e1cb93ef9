"""What a worker tells about itself while it runs: plain numbers, and the HTTP endpoint that shows them."""
