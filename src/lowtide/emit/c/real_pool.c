/* Pools of numbers with a point: the mean over a window, or the largest. */
typedef struct {
    view_t in, out;
    int32_t in_h, in_w;
    int32_t kernel_h, kernel_w, stride_h, stride_w, top, left;
    int32_t average; /* 0: the largest */
    float low, high;
} real_pool_t;

static float real_pool_of(const real_pool_t *k, int32_t y, int32_t x, int32_t c)
{
    int32_t first_y = (y * k->stride_h) - k->top;
    int32_t first_x = (x * k->stride_w) - k->left;
    float total = (k->average != 0) ? 0.0f : -FLT_MAX;
    float count = 0.0f;
    int32_t row;
    int32_t column;
    for (row = most(0, first_y); row < least(k->in_h, first_y + k->kernel_h); row++) {
        for (column = most(0, first_x); column < least(k->in_w, first_x + k->kernel_w); column++) {
            float value = real_at(at(&k->in, row, column, c));
            if (k->average != 0) {
                total += value;
                count += 1.0f;
            } else {
                total = (total < value) ? value : total;
            }
        }
    }
    return bounded((k->average != 0) ? (total / count) : total, k->low, k->high);
}

static void real_pool(const real_pool_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            for (c = box->c0; c < box->c1; c++) {
                set_real(at(&k->out, y, x, c), real_pool_of(k, y, x, c));
            }
        }
    }
}
