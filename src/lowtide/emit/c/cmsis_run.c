/* Of each layer of the segment the rows that are done. */
static int16_t done[MOST_LAYERS];
static uint16_t segment;

static void start_loop(int16_t loop)
{
    segment = (uint16_t)loop;
}

static void run_step(step_t step)
{
    if (step.layer >= MOVES) {
        const move_t *move = &moves[step.layer - MOVES];
        int8_t *front = bytes_at(move->place.at);
        (void)memmove(front, front + ((int32_t)step.rows * move->place.row_bytes),
                      (size_t)(move->kept * move->place.row_bytes));
        fronts[move->place.front] = (int16_t)(fronts[move->place.front] + (int16_t)step.rows);
    } else if (step.rows == 0U) { /* a segment begins */
        segment = step.layer;
        (void)memset(done, 0, sizeof done);
        (void)memset(fronts, 0, sizeof fronts);
    } else {
        int16_t *rows = &done[step.layer - segment];
        run_layer(&layers[step.layer], *rows, step.rows);
        *rows = (int16_t)(*rows + (int16_t)step.rows);
    }
}

static int run_on(void)
{
    int32_t r;
    int32_t i;
    int32_t times;
    for (r = 0; r < RUNS; r++) {
        for (times = 0; times < (int32_t)runs[r].times; times++) {
            for (i = 0; i < (int32_t)runs[r].count; i++) {
                run_step(steps[(int32_t)runs[r].first + i]);
            }
        }
    }
    return 0;
}

