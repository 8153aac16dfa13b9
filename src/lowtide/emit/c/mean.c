static void mean(const mean_t *k, const box_t *box)
{
    int32_t many = least(BLOCK, least(together(&k->out, box->c1 - box->c0), together(&k->in, box->c1 - box->c0)));
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t j;
    for (c = box->c0; c < box->c1; c += many) {
        int32_t sums[BLOCK] = {0};
        int32_t block = least(many, box->c1 - c);
        int8_t *out = at(&k->out, 0, 0, c);
        for (y = 0; y < k->in_h; y++) {
            for (x = 0; x < k->in_w; x++) {
                const int8_t *in = at(&k->in, y, x, c);
                for (j = 0; j < block; j++) {
                    sums[j] += in[j * k->in.c];
                }
            }
        }
        for (j = 0; j < block; j++) {
            out[j * k->out.c] = clamped(mean_of(k, sums[j]), INT8_MIN, INT8_MAX);
        }
    }
}
