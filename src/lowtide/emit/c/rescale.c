/* The same numbers in another scale, and no more than an activation lets through. */
typedef struct {
    view_t in, out;
    int32_t in_zero, out_zero, multiplier, shift, low, high;
} rescale_t;

static void rescale(const rescale_t *k, const box_t *box)
{
    int32_t count = box->c1 - box->c0;
    int32_t many = least(together(&k->out, count), together(&k->in, count));
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t j;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c += many) {
                const int8_t *in = at(&k->in, y, x, c);
                int8_t *out = at(&k->out, y, x, c);
                for (j = 0; j < many; j++) {
                    int32_t value = scaled(in[j * k->in.c] - k->in_zero, k->multiplier, k->shift);
                    out[j * k->out.c] = clamped(value + k->out_zero, k->low, k->high);
                }
            }
        }
    }
}
