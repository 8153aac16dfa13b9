static void softmax_row(const softmax_t *k, const int8_t *in, int8_t *out)
{
    softmax_sum_t row = softmax_sum(k, in);
    int32_t c;
    for (c = 0; c < k->depth; c++) {
        out[c] = clamped(softmax_share(k, &row, in[c], 8) + INT8_MIN, INT8_MIN, INT8_MAX);
    }
}

static void softmax(const softmax_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            softmax_row(k, at(&k->in, y, x, 0), at(&k->out, y, x, 0));
        }
    }
}
