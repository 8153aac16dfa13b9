/* Softmax from 8 bits to 16. */
typedef softmax_t wide_softmax_t;

static void wide_softmax_row(const softmax_t *k, const int8_t *in, int8_t *out)
{
    softmax_sum_t row = softmax_sum(k, in);
    int32_t c;
    for (c = 0; c < k->depth; c++) {
        int32_t value = softmax_share(k, &row, in[c], 16) + INT16_MIN;
        set_half(&out[c * 2], most(INT16_MIN, least(INT16_MAX, value)));
    }
}

static void wide_softmax(const softmax_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            wide_softmax_row(k, at(&k->in, y, x, 0), at(&k->out, y, x, 0));
        }
    }
}
