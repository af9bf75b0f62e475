"""One model call, well behaved. Start with `stream` and `complete`; `find_model` names what can be called."""
