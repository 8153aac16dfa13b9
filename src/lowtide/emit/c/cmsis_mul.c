static void nn_mul(const product_of_two_t *k, int32_t y, int32_t rows)
{
    (void)arm_elementwise_mul_s8(row_at(&k->first, y), row_at(&k->second, y), k->first_offset, k->second_offset,
                                 row_at(&k->out, y), k->out_offset, k->multiplier, k->shift, k->low, k->high,
                                 rows * k->out.row_bytes);
}

