static void nn_product(const product_t *k)
{
    cmsis_nn_context context = {(void *)k->sums, 4 * k->channels};
    cmsis_nn_fc_params params = {k->in_offset, 0, k->out_offset, {k->low, k->high}};
    cmsis_nn_dims in = {1, 1, 1, k->depth};
    cmsis_nn_dims filter = {k->depth, 1, 1, k->channels};
    cmsis_nn_dims out = {1, 1, 1, k->channels};
    if (k->per_channel != 0) {
        cmsis_nn_per_channel_quant_params quant = {(int32_t *)k->multiplier, (int32_t *)k->shift};
        (void)arm_fully_connected_per_channel_s8(&context, &params, &quant, &in, row_at(&k->in, 0), &filter,
                                                 k->weights, &out, k->bias, &out, row_at(&k->out, 0));
    } else {
        cmsis_nn_per_tensor_quant_params quant = {k->multiplier[0], k->shift[0]};
        (void)arm_fully_connected_s8(&context, &params, &quant, &in, row_at(&k->in, 0), &filter, k->weights, &out,
                                     k->bias, &out, row_at(&k->out, 0));
    }
}

