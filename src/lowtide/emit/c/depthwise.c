typedef layer_t depthwise_t;

/* The pixel to the right of another one in the input. */
INLINED const int8_t *right_of(const view_t *v, const int8_t *from)
{
    const int8_t *next = &from[v->x];
    if ((v->slots > 1) && (v->px != 0)) {
        next = &next[(v->px % v->slots) * v->stride];
        if (next >= bytes_at(v->base + (v->slots * v->stride))) {
            next = &next[-(v->slots * v->stride)];
        }
    }
    return next;
}

/* Where the taps of a pixel begin. */
INLINED void taps_of(const depthwise_t *k, int32_t y, int32_t x, const int8_t **taps)
{
    int32_t left = (x * k->stride_w) - k->left;
    int32_t within = ((k->dilation_w == 1) && (left >= 0) && ((left + k->kernel_w) <= k->in_w)) ? 1 : 0;
    int32_t row;
    int32_t column;
    for (row = 0; row < k->kernel_h; row++) {
        int32_t in_y = (y * k->stride_h) - k->top + (row * k->dilation_h);
        int32_t inside = ((in_y >= 0) && (in_y < k->in_h)) ? 1 : 0;
        const int8_t **to = &taps[row * k->kernel_w];
        if ((inside != 0) && (within != 0)) {
            const int8_t *from = at(&k->in, in_y, left, 0);
            for (column = 0; column < k->kernel_w; column++) {
                to[column] = from;
                from = right_of(&k->in, from);
            }
        } else {
            for (column = 0; column < k->kernel_w; column++) {
                int32_t in_x = left + (column * k->dilation_w);
                to[column] = k->border;
                if ((inside != 0) && (in_x >= 0) && (in_x < k->in_w)) {
                    to[column] = at(&k->in, in_y, in_x, 0);
                }
            }
        }
    }
}

/* A channel for each of the input, and a pixel's channels beside each other. */
INLINED void depthwise(const depthwise_t *k, const box_t *box)
{
    const int8_t *taps[MOST_DEPTHWISE];
    int32_t count = k->kernel_h * k->kernel_w;
    int32_t y;
    int32_t x;
    int32_t t;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            int8_t *to = at(&k->out, y, x, 0);
            int32_t c = box->c0;
            taps_of(k, y, x, taps);
#if defined(__ARM_FEATURE_MVE)
            for (; (k->small != 0) && (c < (box->c1 - 15)); c += 16) {
                int32_t sums[16];
                sixteen_sums(taps, &k->weights[c], count, c, k->in_c, sums);
                for (t = 0; t < 16; t += 4) {
                    set_four(k, c + t, vldrwq_s32(&sums[t]), &to[c + t]);
                }
            }
#endif
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
