"""The wire formats: one module each, an encoder, a decoder and a thin class."""
