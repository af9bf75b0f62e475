"""One model call, well behaved."""
