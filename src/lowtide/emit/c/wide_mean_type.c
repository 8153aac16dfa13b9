/* Means of 16 bits over all rows and columns. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w;
    int32_t in_zero, out_zero, multiplier, shift;
} wide_mean_t;

static int32_t wide_mean_of(const wide_mean_t *k, int32_t total)
{
    int32_t sum = total - (k->in_zero * k->in_h * k->in_w);
    return most(INT16_MIN, least(INT16_MAX, scaled(sum, k->multiplier, k->shift) + k->out_zero));
}

