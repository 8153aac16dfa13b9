/* The same numbers in another type or scale. */
typedef struct {
    view_t in, out;
    int32_t in_bytes, out_bytes;
    int32_t in_zero, out_zero, multiplier, shift, low, high;
} wide_rescale_t;

static void wide_rescale(const wide_rescale_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c++) {
                int32_t value = wide_at(at(&k->in, y, x, c), k->in_bytes) - k->in_zero;
                value = scaled(value, k->multiplier, k->shift) + k->out_zero;
                set_wide(at(&k->out, y, x, c), k->out_bytes, most(k->low, least(k->high, value)));
            }
        }
    }
}
