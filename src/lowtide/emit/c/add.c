/* Sums of two tensors of one shape. */
typedef struct {
    view_t first, second, out;
    int32_t first_zero, first_multiplier, first_shift;
    int32_t second_zero, second_multiplier, second_shift;
    int32_t out_zero, out_multiplier, out_shift;
    int32_t low, high;
} add_t;

/* Of a number below 2^30. */
INLINED int32_t add_scaled(int32_t value, int32_t multiplier, int32_t shift)
{
    return (shift < 0) ? scaled_down(value, multiplier, -shift) : scaled(value, multiplier, shift);
}

INLINED int8_t add_one(const add_t *k, int32_t first, int32_t second)
{
    int32_t one = add_scaled((first - k->first_zero) * ADD_FACTOR, k->first_multiplier, k->first_shift);
    int32_t other = add_scaled((second - k->second_zero) * ADD_FACTOR, k->second_multiplier, k->second_shift);
    return clamped(add_scaled(one + other, k->out_multiplier, k->out_shift) + k->out_zero, k->low, k->high);
}

#if defined(__ARM_FEATURE_MVE) && !MODEL_SINGLE_ROUNDING
INLINED void add_four(const add_t *k, const int8_t *first, const int8_t *second, int8_t *out)
{
    four_t one = vmulq_n_s32(vsubq_n_s32(vldrbq_s32(first), k->first_zero), ADD_FACTOR);
    four_t other = vmulq_n_s32(vsubq_n_s32(vldrbq_s32(second), k->second_zero), ADD_FACTOR);
    one = scaled_four(one, vdupq_n_s32(k->first_multiplier), vdupq_n_s32(k->first_shift));
    other = scaled_four(other, vdupq_n_s32(k->second_multiplier), vdupq_n_s32(k->second_shift));
    one = scaled_four(vaddq_s32(one, other), vdupq_n_s32(k->out_multiplier), vdupq_n_s32(k->out_shift));
    store_four(out, vaddq_n_s32(one, k->out_zero), k->low, k->high);
}
#else
INLINED void add_four(const add_t *k, const int8_t *first, const int8_t *second, int8_t *out)
{
    int32_t j;
    for (j = 0; j < 4; j++) {
        out[j] = add_one(k, first[j], second[j]);
    }
}
#endif

INLINED void add(const add_t *k, const box_t *box)
{
    int32_t beside = channels_beside(&k->first) * channels_beside(&k->second) * channels_beside(&k->out);
    int32_t y;
    int32_t x;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            const int8_t *first = at(&k->first, y, x, 0);
            const int8_t *second = at(&k->second, y, x, 0);
            int8_t *out = at(&k->out, y, x, 0);
            int32_t c = box->c0;
            for (; (beside != 0) && (c < (box->c1 - 3)); c += 4) {
                add_four(k, &first[c], &second[c], &out[c]);
            }
            for (; c < box->c1; c++) {
                *at(&k->out, y, x, c) = add_one(k, *at(&k->first, y, x, c), *at(&k->second, y, x, c));
            }
        }
    }
}
