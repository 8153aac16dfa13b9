typedef layer_t depthwise_t;

/* Where the taps of a pixel begin. */
INLINED void taps_of(const depthwise_t *k, int32_t y, int32_t x, const int8_t **taps)
{
    int32_t top = (y * k->stride_h) - k->top;
    int32_t left = (x * k->stride_w) - k->left;
    int32_t row;
    int32_t column;
    for (row = 0; row < k->kernel_h; row++) {
        int32_t in_y = top + (row * k->dilation_h);
        for (column = 0; column < k->kernel_w; column++) {
            int32_t in_x = left + (column * k->dilation_w);
            int32_t inside = (in_y >= 0) && (in_y < k->in_h) && (in_x >= 0) && (in_x < k->in_w);
            taps[(row * k->kernel_w) + column] = (inside != 0) ? at(&k->in, in_y, in_x, 0) : k->border;
        }
    }
}

/* A channel for each of the input, and a pixel's channels beside each other. */
INLINED void depthwise(const depthwise_t *k, const box_t *box)
{
    const int8_t *taps[MOST_TAPS];
    int32_t count = k->kernel_h * k->kernel_w;
    int32_t y;
    int32_t x;
    int32_t t;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            int8_t *to = at(&k->out, y, x, 0);
            int32_t c = box->c0;
            taps_of(k, y, x, taps);
            for (; c < (box->c1 - 3); c += 4) {
                four_t sums = no_sums();
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 9
#endif
                for (t = 0; t < count; t++) {
                    sums = with_tap(sums, &taps[t][c], &k->weights[(t * k->in_c) + c]);
                }
                set_four(k, c, sums, &to[c]);
            }
            for (; c < box->c1; c++) {
                int32_t sum = 0;
                for (t = 0; t < count; t++) {
                    sum += (int32_t)taps[t][c] * (int32_t)k->weights[(t * k->in_c) + c];
                }
                to[c] = result_of(k, c, sum);
            }
        }
    }
}
