/* A mean of rows and columns of 16 bits that come one after the other; the box is of the input. */
typedef struct {
    mean_t mean;
    int32_t sums;
} wide_mean_sum_t;

static void wide_mean_sum(const wide_mean_sum_t *part, const box_t *box)
{
    const mean_t *k = &part->mean;
    int32_t last = ((box->y1 == k->in_h) && (box->x1 == k->in_w));
    int32_t c;
    for (c = box->c0; c < box->c1; c++) {
        int32_t sum = wide_added_up(&k->in, box, c, part->sums);
        if (last != 0) {
            set_half(at(&k->out, 0, 0, c), most(INT16_MIN, least(INT16_MAX, mean_of(k, sum))));
        } else {
            set_sum(part->sums, c, sum);
        }
    }
}
