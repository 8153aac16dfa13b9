/* Pools over windows: the mean, or the largest. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w;
    int32_t kernel_h, kernel_w, stride_h, stride_w, top, left;
    int32_t average; /* 0: the largest */
    int32_t low, high;
} pool_t;

/* A mean, rounded, halves away from zero. */
static int32_t average_of(const pool_t *k, int32_t sum, int32_t count)
{
    int32_t value = ((sum > 0) ? (sum + (count / 2)) : (sum - (count / 2))) / count;
    return most(k->low, least(k->high, value));
}

