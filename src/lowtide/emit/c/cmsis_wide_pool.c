static void nn_wide_pool(const rows_t *k, int32_t y, int32_t rows, int average)
{
    stripe_t s = stripe(k, y, rows);
    cmsis_nn_pool_params params = {{k->stride_w, k->stride_h}, s.padding, {k->low, k->high}};
    cmsis_nn_dims filter = {1, k->kernel_h, k->kernel_w, 1};
    if (average != 0) {
        (void)arm_avgpool_s16(&s.context, &params, &s.in, wide_in(s.from), &filter, &s.out, wide_out(s.to));
    } else {
        (void)arm_max_pool_s16(&s.context, &params, &s.in, wide_in(s.from), &filter, &s.out, wide_out(s.to));
    }
}

