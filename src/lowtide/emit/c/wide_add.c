/* Sums of two tensors of 16 bits. */
typedef struct {
    view_t first, second, out;
    int32_t first_zero, first_multiplier, first_shift;
    int32_t second_zero, second_multiplier, second_shift;
    int32_t out_zero, out_multiplier, out_shift;
    int32_t low, high;
} wide_add_t;

static void wide_add(const wide_add_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c++) {
                int32_t first = (half_at(at(&k->first, y, x, c)) - k->first_zero) * WIDE_ADD_FACTOR;
                int32_t second = (half_at(at(&k->second, y, x, c)) - k->second_zero) * WIDE_ADD_FACTOR;
                int32_t sum = scaled(first, k->first_multiplier, k->first_shift)
                              + scaled(second, k->second_multiplier, k->second_shift);
                sum = scaled(sum, k->out_multiplier, k->out_shift) + k->out_zero;
                set_half(at(&k->out, y, x, c), most(k->low, least(k->high, sum)));
            }
        }
    }
}
