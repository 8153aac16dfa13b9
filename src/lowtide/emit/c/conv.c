typedef layer_t conv_t;

/* What a pixel of the result reads, in the order of the weights. */
INLINED void gather(const conv_t *k, int32_t y, int32_t x, int8_t *patch)
{
    int32_t wide = k->kernel_w * k->in_c;
    int32_t left = (x * k->stride_w) - k->left;
    int32_t beside = ((k->in.px == 0) && (k->in.x == k->in_c) && (k->dilation_w == 1)) ? 1 : 0;
    int32_t row;
    int32_t column;
    for (row = 0; row < k->kernel_h; row++) {
        int32_t in_y = (y * k->stride_h) - k->top + (row * k->dilation_h);
        int8_t *to = &patch[row * wide];
        if ((in_y < 0) || (in_y >= k->in_h)) {
            (void)memset(to, k->in_zero, (size_t)wide);
        } else if ((beside != 0) && (left >= 0) && ((left + k->kernel_w) <= k->in_w)) {
            (void)memcpy(to, at(&k->in, in_y, left, 0), (size_t)wide);
        } else {
            for (column = 0; column < k->kernel_w; column++) {
                int32_t in_x = left + (column * k->dilation_w);
                if ((in_x < 0) || (in_x >= k->in_w)) {
                    (void)memset(&to[column * k->in_c], k->in_zero, (size_t)k->in_c);
                } else {
                    (void)memcpy(&to[column * k->in_c], at(&k->in, in_y, in_x, 0), (size_t)k->in_c);
                }
            }
        }
    }
}

INLINED void conv(const conv_t *k, const box_t *box)
{
    int8_t patch[MOST_CONV];
    int32_t length = k->kernel_h * k->kernel_w * k->in_c;
    int32_t single = ((length == k->in_c) && (k->top == 0) && (k->left == 0)) ? 1 : 0;
    int32_t beside = channels_beside(&k->out);
    int32_t y;
    int32_t x;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            const int8_t *in = patch;
            int8_t *to = at(&k->out, y, x, 0);
            int32_t c = box->c0;
            if (single != 0) {
                in = at(&k->in, y * k->stride_h, x * k->stride_w, 0);
            } else {
                gather(k, y, x, patch);
            }
            for (; (beside != 0) && (c < (box->c1 - 3)); c += 4) {
                set_four(k, c, four_products(in, &k->weights[c * length], length, length), &to[c]);
            }
            for (; c < box->c1; c++) {
                *at(&k->out, y, x, c) = result_of(k, c, products_of(in, &k->weights[c * length], length));
            }
        }
    }
}
