"""A session as a page: `page` puts it together, `save` writes it, the rest turns one kind of thing into HTML each."""
