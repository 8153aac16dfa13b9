typedef layer_t depthwise_apart_t;

/* Channels one by one: they lie apart, or several are made of one. */
static void depthwise_apart(const depthwise_apart_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t t;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c++) {
                int32_t sum = 0;
                for (t = 0; t < (k->kernel_h * k->kernel_w); t++) {
                    int32_t in_y = (y * k->stride_h) - k->top + ((t / k->kernel_w) * k->dilation_h);
                    int32_t in_x = (x * k->stride_w) - k->left + ((t % k->kernel_w) * k->dilation_w);
                    int32_t inside = (in_y >= 0) && (in_y < k->in_h) && (in_x >= 0) && (in_x < k->in_w);
                    int32_t value = (inside != 0) ? *at(&k->in, in_y, in_x, c / k->times) : k->in_zero;
                    sum += value * (int32_t)k->weights[(t * k->in_c * k->times) + c];
                }
                *at(&k->out, y, x, c) = result_of(k, c, sum);
            }
        }
    }
}
