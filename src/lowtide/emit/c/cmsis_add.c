/* Sums of two tensors of one shape. */
typedef struct {
    place_t first, second, out;
    int32_t first_offset, first_multiplier, first_shift;
    int32_t second_offset, second_multiplier, second_shift;
    int32_t out_offset, out_multiplier, out_shift;
    int32_t low, high;
} sum_of_two_t;

static void nn_add(const sum_of_two_t *k, int32_t y, int32_t rows)
{
    (void)arm_elementwise_add_s8(row_at(&k->first, y), row_at(&k->second, y), k->first_offset, k->first_multiplier,
                                 k->first_shift, k->second_offset, k->second_multiplier, k->second_shift, LEFT_SHIFT,
                                 row_at(&k->out, y), k->out_offset, k->out_multiplier, k->out_shift, k->low, k->high,
                                 rows * k->out.row_bytes);
}

