/* Takes the next position of the input that the schedule waits for. */
static void feed(const int8_t *position)
{
    const loop_t *loop = &loops[counters.loop];
    int16_t top = counters.waiting[counters.depth - 1];
    int8_t *to = &arena[SOURCE_BASE + ((counters.done[top] % SOURCE_SLOTS) * SOURCE_BYTES)];
    int32_t i;
    for (i = 0; i < SOURCE_BYTES; i++) {
        to[i] = position[i];
    }
    counters.done[top]++;
    counters.depth--;
    run_followers(loop, top);
}

int model_feed_rows(const int8_t *rows, int32_t count)
{
    int32_t positions = count * (MODEL_ROW_BYTES / SOURCE_BYTES);
    int32_t i;
    for (i = 0; i < positions; i++) {
        if (run_on() == 0) {
            return 0;
        }
        feed(&rows[i * SOURCE_BYTES]);
    }
    return run_on();
}
