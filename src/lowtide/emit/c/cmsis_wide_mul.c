static void nn_wide_mul(const product_of_two_t *k, int32_t y, int32_t rows)
{
    (void)arm_elementwise_mul_s16(wide_in(row_at(&k->first, y)), wide_in(row_at(&k->second, y)), 0, 0,
                                  wide_out(row_at(&k->out, y)), 0, k->multiplier, k->shift, k->low, k->high,
                                  rows * (k->out.row_bytes / 2));
}

