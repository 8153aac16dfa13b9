static void nn_wide_conv(const rows_t *k, int32_t y, int32_t rows)
{
    stripe_t s = stripe(k, y, rows);
    cmsis_nn_conv_params params = {0, 0, {k->stride_w, k->stride_h}, s.padding, {k->dilation_w, k->dilation_h},
                                   {k->low, k->high}};
    cmsis_nn_per_channel_quant_params quant = {(int32_t *)k->multiplier, (int32_t *)k->shift};
    cmsis_nn_dims filter = {k->out_c, k->kernel_h, k->kernel_w, k->in_c};
    cmsis_nn_dims dims = {1, 1, 1, k->out_c};
    cmsis_nn_bias_data bias = {k->bias, 0};
    (void)arm_convolve_wrapper_s16(&s.context, &params, &quant, &s.in, wide_in(s.from), &filter, k->weights, &dims,
                                   &bias, &s.out, wide_out(s.to));
}

