/* Means of 16 bits over all rows and columns. */
typedef mean_t wide_mean_t;

static void wide_mean(const mean_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    for (c = box->c0; c < box->c1; c++) {
        int32_t sum = 0;
        for (y = 0; y < k->in_h; y++) {
            for (x = 0; x < k->in_w; x++) {
                sum += half_at(at(&k->in, y, x, c));
            }
        }
        set_half(at(&k->out, 0, 0, c), most(INT16_MIN, least(INT16_MAX, mean_of(k, sum))));
    }
}
