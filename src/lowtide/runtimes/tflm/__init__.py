"""TensorFlow Lite for Microcontrollers."""
