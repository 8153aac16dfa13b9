"""Plans that say what is not so, made of honest ones."""
