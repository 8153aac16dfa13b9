"""C that calls CMSIS-NN: the layers of a model in stripes of rows, in an arena that counts the library's scratch."""
