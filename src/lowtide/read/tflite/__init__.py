"""TFLite files."""
