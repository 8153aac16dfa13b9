typedef wide_layer_t wide_depthwise_t;

static void wide_depthwise(const wide_depthwise_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t row;
    int32_t column;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c++) {
                int64_t sum = (k->bias != NULL) ? k->bias[c] : 0;
                for (row = 0; row < k->kernel_h; row++) {
                    for (column = 0; column < k->kernel_w; column++) {
                        int32_t in_y = (y * k->stride_h) - k->top + (row * k->dilation_h);
                        int32_t in_x = (x * k->stride_w) - k->left + (column * k->dilation_w);
                        if ((in_y >= 0) && (in_y < k->in_h) && (in_x >= 0) && (in_x < k->in_w)) {
                            int32_t which = (((row * k->kernel_w) + column) * (k->in_c * k->times)) + c;
                            int32_t value = half_at(at(&k->in, in_y, in_x, c / k->times));
                            sum += (int64_t)value * (int64_t)k->weights[which];
                        }
                    }
                }
                set_half(at(&k->out, y, x, c),
                         most(k->low, least(k->high, scaled_long(sum, k->multiplier[c], k->shift[c]))));
            }
        }
    }
}
