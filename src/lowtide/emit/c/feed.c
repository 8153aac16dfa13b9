/* Where parts of an input that is handed over go. */
typedef struct {
    int32_t base, slots, bytes; /* slots of so many bytes, taken in turn */
    int16_t input;              /* which input of the model */
} source_t;

@SOURCES@

/* The input that the schedule waits for. */
static const source_t *wanted(void)
{
    return &sources[nodes[loops[counters.loop].first + counters.waiting[counters.depth - 1]].input];
}

/* Takes the next part of it. */
static void feed(const int8_t *part)
{
    const loop_t *loop = &loops[counters.loop];
    const source_t *source = wanted();
    int16_t top = counters.waiting[counters.depth - 1];
    int8_t *to = bytes_at(source->base + ((counters.done[top] % source->slots) * source->bytes));
    int32_t i;
    for (i = 0; i < source->bytes; i++) {
        to[i] = part[i];
    }
    counters.done[top]++;
    counters.depth--;
    run_followers(loop, top);
}

