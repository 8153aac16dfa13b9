/* What runs next: the step, and of each layer of the segment the rows that are done. */
static struct {
    int32_t step;
    int16_t done[MOST_LAYERS];
} counters;

static void start_loop(int16_t loop)
{
    (void)loop;
    counters.step = 0;
}

static int run_on(void)
{
    int32_t first = 0; /* layer of the segment */
    for (; counters.step < STEPS; counters.step++) {
        step_t step = steps[counters.step];
        if (step.layer >= MOVES) {
            const move_t *move = &moves[step.layer - MOVES];
            int8_t *front = bytes_at(move->place.at);
            (void)memmove(front, front + ((int32_t)step.rows * move->place.row_bytes),
                          (size_t)(move->kept * move->place.row_bytes));
            fronts[move->place.front] = (int16_t)(fronts[move->place.front] + (int16_t)step.rows);
        } else if (step.rows == 0) { /* a segment begins */
            first = step.layer;
            (void)memset(counters.done, 0, sizeof counters.done);
            (void)memset(fronts, 0, sizeof fronts);
        } else {
            int16_t *done = &counters.done[(int32_t)step.layer - first];
            run_layer(&layers[step.layer], *done, step.rows);
            *done = (int16_t)(*done + (int16_t)step.rows);
        }
    }
    return 0;
}

