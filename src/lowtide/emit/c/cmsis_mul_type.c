/* Products of the elements of two tensors of one shape. */
typedef struct {
    place_t first, second, out;
    int32_t first_offset, second_offset, out_offset;
    int32_t multiplier, shift;
    int32_t low, high;
} product_of_two_t;

