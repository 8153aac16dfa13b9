"""What people read: text, pictures."""
