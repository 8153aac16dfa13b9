static void nn_wide_add(const sum_of_two_t *k, int32_t y, int32_t rows)
{
    (void)arm_elementwise_add_s16(wide_in(row_at(&k->first, y)), wide_in(row_at(&k->second, y)), 0,
                                  k->first_multiplier, k->first_shift, 0, k->second_multiplier, k->second_shift,
                                  WIDE_LEFT_SHIFT, wide_out(row_at(&k->out, y)), 0, k->out_multiplier, k->out_shift,
                                  k->low, k->high, rows * (k->out.row_bytes / 2));
}

