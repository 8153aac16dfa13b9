/* A mean of rows and columns of 16 bits that come one after the other; the box is of the input. */
typedef struct {
    wide_mean_t mean;
    int32_t sums;
} wide_mean_sum_t;

static void wide_mean_sum(const wide_mean_sum_t *part, const box_t *box)
{
    const wide_mean_t *k = &part->mean;
    int32_t first = ((box->y0 == 0) && (box->x0 == 0));
    int32_t last = ((box->y1 == k->in_h) && (box->x1 == k->in_w));
    int32_t y;
    int32_t x;
    int32_t c;
    for (c = box->c0; c < box->c1; c++) {
        int32_t sum = (first != 0) ? 0 : sum_at(part->sums, c);
        for (y = box->y0; y < box->y1; y++) {
            for (x = box->x0; x < box->x1; x++) {
                sum += half_at(at(&k->in, y, x, c));
            }
        }
        if (last != 0) {
            set_half(at(&k->out, 0, 0, c), wide_mean_of(k, sum));
        } else {
            set_sum(part->sums, c, sum);
        }
    }
}
