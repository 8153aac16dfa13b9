/* The sum of each of some channels over a window, or the largest. */
static void over_window(const pool_t *k, const box_t *window, int32_t c, int32_t block, int32_t *values)
{
    int32_t row;
    int32_t column;
    int32_t j;
    for (row = window->y0; row < window->y1; row++) {
        for (column = window->x0; column < window->x1; column++) {
            const int8_t *in = at(&k->in, row, column, c);
            for (j = 0; j < block; j++) {
                int32_t value = in[j * k->in.c];
                values[j] = (k->average != 0) ? (values[j] + value) : most(values[j], value);
            }
        }
    }
}

static void pool(const pool_t *k, const box_t *box)
{
    int32_t many = least(BLOCK, least(together(&k->out, box->c1 - box->c0), together(&k->in, box->c1 - box->c0)));
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t j;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            box_t window = window_of(k, y, x);
            int32_t count = (window.y1 - window.y0) * (window.x1 - window.x0);
            for (c = box->c0; c < box->c1; c += many) {
                int32_t values[BLOCK];
                int32_t block = least(many, box->c1 - c);
                int8_t *out = at(&k->out, y, x, c);
                for (j = 0; j < block; j++) {
                    values[j] = (k->average != 0) ? 0 : k->low;
                }
                over_window(k, &window, c, block, values);
                for (j = 0; j < block; j++) {
                    out[j * k->out.c] = (int8_t)((k->average != 0) ? average_of(k, values[j], count)
                                                                   : least(k->high, values[j]));
                }
            }
        }
    }
}
