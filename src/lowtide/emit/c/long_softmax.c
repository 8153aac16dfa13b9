/* Softmax from 16 bits to 16, by lines between 513 values of exp and of 1 / (1 + x), 15 bits right of the point. */
typedef struct {
    view_t in, out;
    int32_t depth, multiplier, shift;
    const int16_t *exps;     /* from -10 to 0 */
    const int16_t *inverses; /* of x from 0 to 1 */
} long_softmax_t;

static int32_t between(const int16_t *curve, int32_t place)
{
    int32_t value = most(INT16_MIN, least(INT16_MAX, place));
    const int16_t *from = &curve[256 + (value >> 7)];
    int32_t slope = (int32_t)(int16_t)(uint16_t)((uint32_t)((int32_t)from[1] - (int32_t)from[0]) & 0xFFFFU);
    return (int32_t)from[0] + (((slope * (value & 0x7F)) + 64) >> 7);
}

static void long_softmax_row(const long_softmax_t *k, const int8_t *in, int8_t *out)
{
    int32_t largest = INT16_MIN;
    int32_t sum = 0;
    int32_t zeros;
    int32_t scale;
    int32_t c;
    for (c = 0; c < k->depth; c++) {
        largest = most(largest, half_at(&in[2 * c]));
    }
    for (c = 0; c < k->depth; c++) { /* the result holds what is added up, until the sum is there */
        int32_t value = between(k->exps, scaled(half_at(&in[2 * c]) - largest, k->multiplier, k->shift) + 32767);
        set_half(&out[2 * c], value);
        sum += value;
    }
    zeros = leading_zeros((uint32_t)sum);
    scale = (int32_t)((((int64_t)sum * ((int64_t)1 << (zeros - 1))) + 8192) >> 14);
    scale = between(k->inverses, scale - 98304);
    for (c = 0; c < k->depth; c++) {
        int32_t right = 31 - zeros;
        int64_t value = ((int64_t)half_at(&out[2 * c]) * scale) + ((int64_t)1 << (right - 1));
        set_half(&out[2 * c], most(0, least(INT16_MAX, (int32_t)(value >> right))));
    }
}

static void long_softmax(const long_softmax_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            long_softmax_row(k, at(&k->in, y, x, 0), at(&k->out, y, x, 0));
        }
    }
}
