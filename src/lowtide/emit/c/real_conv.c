/* The sum of products of one channel at a pixel, in the order of TFLM's reference kernels. */
static float real_conv_sum(const real_conv_t *k, int32_t y, int32_t x, int32_t c)
{
    int32_t first = (c / k->filters) * k->depth;
    float sum = 0.0f;
    int32_t row;
    int32_t column;
    int32_t d;
    for (row = 0; row < k->kernel_h; row++) {
        int32_t in_y = (y * k->stride_h) - k->top + (row * k->dilation_h);
        if ((in_y < 0) || (in_y >= k->in_h)) {
            continue;
        }
        for (column = 0; column < k->kernel_w; column++) {
            int32_t in_x = (x * k->stride_w) - k->left + (column * k->dilation_w);
            if ((in_x >= 0) && (in_x < k->in_w)) {
                const int8_t *in = at(&k->in, in_y, in_x, first);
                const float *weights = &k->weights[((((c * k->kernel_h) + row) * k->kernel_w) + column) * k->depth];
                for (d = 0; d < k->depth; d++) {
                    sum += real_at(&in[d * k->in.c]) * weights[d];
                }
            }
        }
    }
    return sum;
}

static void real_conv(const real_conv_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c++) {
                float sum = real_conv_sum(k, y, x, c) + ((k->bias != NULL) ? k->bias[c] : 0.0f);
                set_real(at(&k->out, y, x, c), bounded(sum, k->low, k->high));
            }
        }
    }
}
