"""Folders of emitted C as the build systems of microcontrollers want them."""
