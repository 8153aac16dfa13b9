"""Published methods of ordering ops."""
