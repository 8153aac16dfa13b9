int model_feed_rows(const int8_t *rows, int32_t count)
{
    int32_t positions = count * (MODEL_ROW_BYTES / sources[0].bytes);
    int32_t i;
    for (i = 0; i < positions; i++) {
        if (run_on() == 0) {
            return 0;
        }
        feed(&rows[i * sources[0].bytes]);
    }
    return run_on();
}
