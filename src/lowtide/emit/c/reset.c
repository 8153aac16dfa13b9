void model_reset(void)
{
    (void)memset(kept_results, 0, STATE_BYTES);
}
