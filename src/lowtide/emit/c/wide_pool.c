static void wide_pool(const wide_pool_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t row;
    int32_t column;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            int32_t top = (y * k->stride_h) - k->top;
            int32_t left = (x * k->stride_w) - k->left;
            int32_t first = most(0, top);
            int32_t end = least(k->in_h, top + k->kernel_h);
            int32_t begin = most(0, left);
            int32_t last = least(k->in_w, left + k->kernel_w);
            for (c = box->c0; c < box->c1; c++) {
                int32_t result = (k->average != 0) ? 0 : k->low;
                for (row = first; row < end; row++) {
                    for (column = begin; column < last; column++) {
                        int32_t value = wide_at(at(&k->in, row, column, c), 2);
                        result = (k->average != 0) ? (result + value) : most(result, value);
                    }
                }
                result = (k->average != 0) ? wide_average(k, result, (end - first) * (last - begin))
                                           : least(k->high, result);
                set_wide(at(&k->out, y, x, c), 2, result);
            }
        }
    }
}
