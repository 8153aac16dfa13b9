/* A convolution whose input comes channel by channel; the box is of the input. */
typedef struct {
    layer_t conv;
    int32_t sums, out_h, out_w, out_c;
} conv_sum_t;

/* What some channels of the input add to one element of the result. */
static int32_t added(const layer_t *k, const box_t *box, int32_t y, int32_t x, int32_t c)
{
    int32_t sum = 0;
    int32_t row;
    int32_t column;
    int32_t d;
    for (row = 0; row < k->kernel_h; row++) {
        for (column = 0; column < k->kernel_w; column++) {
            int32_t in_y = (y * k->stride_h) - k->top + (row * k->dilation_h);
            int32_t in_x = (x * k->stride_w) - k->left + (column * k->dilation_w);
            const int8_t *weights = &k->weights[((((c * k->kernel_h) + row) * k->kernel_w) + column) * k->in_c];
            int32_t inside = (in_y >= 0) && (in_y < k->in_h) && (in_x >= 0) && (in_x < k->in_w);
            for (d = box->c0; d < box->c1; d++) {
                int32_t value = (inside != 0) ? *at(&k->in, in_y, in_x, d) : k->in_zero;
                sum += value * (int32_t)weights[d];
            }
        }
    }
    return sum;
}

static void conv_sum(const conv_sum_t *part, const box_t *box)
{
    const layer_t *k = &part->conv;
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = 0; y < part->out_h; y++) {
        for (x = 0; x < part->out_w; x++) {
            for (c = 0; c < part->out_c; c++) {
                int32_t which = (((y * part->out_w) + x) * part->out_c) + c;
                int32_t sum = (box->c0 > 0) ? sum_at(part->sums, which) : 0;
                sum += added(k, box, y, x, c);
                if (box->c1 == k->in_c) {
                    *at(&k->out, y, x, c) = result_of(k, c, sum);
                } else {
                    set_sum(part->sums, which, sum);
                }
            }
        }
    }
}
