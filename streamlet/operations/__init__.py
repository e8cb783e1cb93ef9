"""What people do to a running app from outside: resume, reset, send, tail, look at state."""
