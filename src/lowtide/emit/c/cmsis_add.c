static void nn_add(const sum_of_two_t *k, int32_t y, int32_t rows)
{
    (void)arm_elementwise_add_s8(row_at(&k->first, y), row_at(&k->second, y), k->first_offset, k->first_multiplier,
                                 k->first_shift, k->second_offset, k->second_multiplier, k->second_shift, LEFT_SHIFT,
                                 row_at(&k->out, y), k->out_offset, k->out_multiplier, k->out_shift, k->low, k->high,
                                 rows * k->out.row_bytes);
}

