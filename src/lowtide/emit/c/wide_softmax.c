/* The same with results of 16 bits. */
typedef softmax_t wide_softmax_t;

static void wide_softmax_row(const softmax_t *k, const int8_t *in, int8_t *out)
{
    int32_t largest = INT8_MIN;
    int32_t sum = 0;
    int32_t room;
    int32_t scale;
    int32_t c;
    for (c = 0; c < k->depth; c++) {
        largest = most(largest, in[c]);
    }
    for (c = 0; c < k->depth; c++) {
        if (((int32_t)in[c] - largest) >= k->least_difference) {
            sum += halved(exp_of(k, (int32_t)in[c] - largest), 12);
        }
    }
    room = leading_zeros((uint32_t)sum);
    scale = reciprocal((int32_t)(((uint32_t)sum << room) - ((uint32_t)1 << 31)));
    for (c = 0; c < k->depth; c++) {
        int32_t difference = (int32_t)in[c] - largest;
        if (difference >= k->least_difference) {
            int32_t value = halved(high_product(scale, exp_of(k, difference)), 12 - room + 31 - 16);
            set_wide(&out[c * 2], 2, most(INT16_MIN, least(INT16_MAX, value + INT16_MIN)));
        } else {
            set_wide(&out[c * 2], 2, INT16_MIN);
        }
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
