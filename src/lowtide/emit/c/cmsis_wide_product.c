static void nn_wide_product(const product_t *k)
{
    cmsis_nn_context context = {NULL, 0};
    cmsis_nn_fc_params params = {0, 0, 0, {k->low, k->high}};
    cmsis_nn_per_tensor_quant_params quant = {k->multiplier[0], k->shift[0]};
    cmsis_nn_dims in = {1, 1, 1, k->depth};
    cmsis_nn_dims filter = {k->depth, 1, 1, k->channels};
    cmsis_nn_dims out = {1, 1, 1, k->channels};
    (void)arm_fully_connected_s16(&context, &params, &quant, &in, wide_in(row_at(&k->in, 0)), &filter, k->weights, &out,
                                  k->bias, &out, wide_out(row_at(&k->out, 0)));
}

