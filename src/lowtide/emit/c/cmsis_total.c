/* Means over all rows and columns, whose rows are added up as they come. `divisor`: of a pool; 0: rescaled. */
typedef struct {
    rows_t pool;
    int32_t sums, divisor, multiplier, shift;
} total_t;

static int32_t mean_of(const total_t *k, int32_t sum)
{
    int32_t half = k->divisor / 2;
    if (k->divisor != 0) {
        return ((sum > 0) ? (sum + half) : (sum - half)) / k->divisor;
    }
    return scaled(sum + (k->pool.in_offset * k->pool.in_h * k->pool.in_w), k->multiplier, k->shift)
           + k->pool.out_offset;
}

static void nn_total(const total_t *k, int32_t y, int32_t rows)
{
    int32_t *sums = (int32_t *)(void *)bytes_at(k->sums);
    const int8_t *from = row_at(&k->pool.in, y);
    int8_t *to = row_at(&k->pool.out, 0);
    int32_t pixel;
    int32_t c;
    if (y == 0) {
        (void)memset(sums, 0, (size_t)k->pool.in_c * sizeof(int32_t));
    }
    for (pixel = 0; pixel < (rows * k->pool.in_w); pixel++) {
        for (c = 0; c < k->pool.in_c; c++) {
            sums[c] += *from++;
        }
    }
    if ((y + rows) == k->pool.in_h) {
        for (c = 0; c < k->pool.in_c; c++) {
            int32_t value = mean_of(k, sums[c]);
            value = (value < k->pool.low) ? k->pool.low : value;
            to[c] = (int8_t)((value > k->pool.high) ? k->pool.high : value);
        }
    }
}

