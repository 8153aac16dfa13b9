/* Pools of 16 bits over windows. */
typedef pool_t wide_pool_t;

static void wide_pool(const pool_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t row;
    int32_t column;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            box_t window = window_of(k, y, x);
            int32_t count = (window.y1 - window.y0) * (window.x1 - window.x0);
            for (c = box->c0; c < box->c1; c++) {
                int32_t result = (k->average != 0) ? 0 : k->low;
                for (row = window.y0; row < window.y1; row++) {
                    for (column = window.x0; column < window.x1; column++) {
                        int32_t value = half_at(at(&k->in, row, column, c));
                        result = (k->average != 0) ? (result + value) : most(result, value);
                    }
                }
                result = (k->average != 0) ? average_of(k, result, count) : least(k->high, result);
                set_half(at(&k->out, y, x, c), result);
            }
        }
    }
}
