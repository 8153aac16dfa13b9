"""Emitted C on boards that qemu emulates: compiled, run on test vectors, and measured."""
