void model_reset(void)
{
    int32_t i;
    for (i = 0; i < STATE_BYTES; i++) {
        kept_results[i] = 0;
    }
}
