"""A plan as portable C: what runs a .tflite model in the plan's arena, row by row where the plan says so."""
