"""What keeps other people's words apart from the user's."""
