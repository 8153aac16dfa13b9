static void average_pool(const pool_t *k, const box_t *box)
{
    int32_t many = least(BLOCK, least(together(&k->out, box->c1 - box->c0), together(&k->in, box->c1 - box->c0)));
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t j;
    int32_t row;
    int32_t column;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            box_t window = window_of(k, y, x);
            int32_t count = (window.y1 - window.y0) * (window.x1 - window.x0);
            for (c = box->c0; c < box->c1; c += many) {
                int32_t sums[BLOCK] = {0};
                int32_t block = least(many, box->c1 - c);
                int8_t *out = at(&k->out, y, x, c);
                for (row = window.y0; row < window.y1; row++) {
                    for (column = window.x0; column < window.x1; column++) {
                        const int8_t *in = at(&k->in, row, column, c);
                        for (j = 0; j < block; j++) {
                            sums[j] += in[j * k->in.c];
                        }
                    }
                }
                for (j = 0; j < block; j++) {
                    out[j * k->out.c] = average_of(k, sums[j], count);
                }
            }
        }
    }
}
