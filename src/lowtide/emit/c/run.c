/* Runs a node's next position if it can (-1), or says which node has to run before. */
static int16_t step(const loop_t *loop, int16_t which)
{
    const node_t *node = &nodes[loop->first + which];
    int32_t position = counters.done[which];
    int32_t first = (node->width == 1) ? position : (position / node->width); /* a division takes long */
    int32_t second = position - (first * node->width);
    int16_t before = (node->missing != NULL) ? node->missing(first, second) : -1;
    if (before < 0) {
@RUN@        counters.done[which] = position + 1;
    }
    return before;
}

/* Runs a follower, or what it needs and the last node does not; whether any of them could. */
static int32_t advance(const loop_t *loop, int16_t follower)
{
    int16_t before = follower;
    if (counters.done[follower] == nodes[loop->first + follower].positions) {
        return 0;
    }
    do {
        before = step(loop, before);
    } while ((before >= 0) && (nodes[loop->first + before].aside != 0));
    return (before < 0) ? 1 : 0;
}

/* What the last node needs nothing of runs as far as it can, the first follower that can before all others. */
static void run_followers(const loop_t *loop, int16_t which)
{
    const node_t *node = &nodes[loop->first + which];
    int16_t i = 0;
    while (i < node->followers) {
        i = (advance(loop, followers[node->first_follower + i]) != 0) ? 0 : (int16_t)(i + 1);
    }
}

static void start_loop(int16_t loop)
{
    int32_t i;
    for (i = 0; i < MOST_NODES; i++) {
        counters.done[i] = 0;
    }
    counters.depth = 0;
    counters.finishing = 0;
    counters.loop = loop;
}

/* Who is to be asked for a position when nobody waits: the last node while it has any left, then what has to be
   finished, node by node; -1: the loop is over. */
static int16_t next_asked(const loop_t *loop)
{
    int16_t last = (int16_t)(loop->count - 1);
    if (counters.done[last] < nodes[loop->first + last].positions) {
        return last;
    }
    while ((counters.finishing >= 0) && (counters.finishing < last)) {
        const node_t *node = &nodes[loop->first + counters.finishing];
        if ((node->leaves != 0) && (counters.done[counters.finishing] < node->positions)) {
            return counters.finishing;
        }
        counters.finishing++;
    }
    return -1;
}

/* The node that waited for the one that ran last, or the one that is asked for; -1: the loop is over. */
static int16_t next_node(const loop_t *loop)
{
    if (counters.depth == 0) {
        return next_asked(loop);
    }
    counters.depth--;
    return counters.waiting[counters.depth];
}

static void put_off(int16_t which)
{
    counters.waiting[counters.depth] = which;
    counters.depth++;
}

/* Runs on until all is done (0) or the next position of an input is wanted (1). */
static int run_on(void)
{
    while (counters.loop < LOOPS) {
        const loop_t *loop = &loops[counters.loop];
        int16_t which = next_node(loop);
        while (which >= 0) {
            const node_t *node = &nodes[loop->first + which];
            int16_t before = -1;
            if (node->run == NULL) {
                put_off(which);
                return 1;
            }
            if (counters.done[which] < node->positions) {
                before = step(loop, which);
                if (before < 0) {
                    run_followers(loop, which);
                }
            }
            if (before >= 0) {
                put_off(which);
                which = before;
            } else {
                which = next_node(loop);
            }
        }
        start_loop((int16_t)(counters.loop + 1));
    }
    return 0;
}
