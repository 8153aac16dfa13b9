/* Means over all rows and columns. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w;
    int32_t in_zero, out_zero, multiplier, shift;
} mean_t;

static int32_t mean_of(const mean_t *k, int32_t total)
{
    int32_t sum = total - (k->in_zero * k->in_h * k->in_w);
    return scaled(sum, k->multiplier, k->shift) + k->out_zero;
}
