static void nn_wide_depthwise(const rows_t *k, int32_t y, int32_t rows)
{
    stripe_t s = stripe(k, y, rows);
    cmsis_nn_dw_conv_params params = {0, 0, k->out_c / k->in_c, {k->stride_w, k->stride_h}, s.padding,
                                      {k->dilation_w, k->dilation_h}, {k->low, k->high}};
    cmsis_nn_per_channel_quant_params quant = {(int32_t *)k->multiplier, (int32_t *)k->shift};
    cmsis_nn_dims filter = {1, k->kernel_h, k->kernel_w, k->out_c};
    cmsis_nn_dims bias = {1, 1, 1, k->out_c};
    (void)arm_depthwise_conv_s16(&s.context, &params, &quant, &s.in, wide_in(s.from), &filter, k->weights, &bias,
                                 k->bias, &s.out, wide_out(s.to));
}

