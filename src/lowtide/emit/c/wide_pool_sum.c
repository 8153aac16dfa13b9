/* The mean of all rows and columns of 16 bits, which come one after the other; the box is of the input. */
typedef struct {
    wide_pool_t pool;
    int32_t sums;
} wide_pool_sum_t;

static void wide_pool_sum(const wide_pool_sum_t *part, const box_t *box)
{
    const wide_pool_t *k = &part->pool;
    int32_t first = ((box->y0 == 0) && (box->x0 == 0));
    int32_t last = ((box->y1 == k->in_h) && (box->x1 == k->in_w));
    int32_t y;
    int32_t x;
    int32_t c;
    for (c = box->c0; c < box->c1; c++) {
        int32_t sum = (first != 0) ? 0 : sum_at(part->sums, c);
        for (y = box->y0; y < box->y1; y++) {
            for (x = box->x0; x < box->x1; x++) {
                sum += wide_at(at(&k->in, y, x, c), 2);
            }
        }
        if (last != 0) {
            set_wide(at(&k->out, 0, 0, c), 2, wide_average(k, sum, k->in_h * k->in_w));
        } else {
            set_sum(part->sums, c, sum);
        }
    }
}
