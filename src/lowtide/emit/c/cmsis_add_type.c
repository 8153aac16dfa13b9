/* Sums of two tensors of one shape. */
typedef struct {
    place_t first, second, out;
    int32_t first_offset, first_multiplier, first_shift;
    int32_t second_offset, second_multiplier, second_shift;
    int32_t out_offset, out_multiplier, out_shift;
    int32_t low, high;
} sum_of_two_t;

