/* Where a node's position is along its first and second axis. */
static void split(const node_t *node, int32_t position, int32_t *at_axis)
{
    at_axis[0] = (node->width == 1) ? position : (position / node->width); /* a division takes long */
    at_axis[1] = position - (at_axis[0] * node->width);
}

/* The first node that another one waits for; -1: it can run. */
static int16_t missing(const loop_t *loop, int16_t which)
{
    const node_t *node = &nodes[loop->first + which];
    int32_t at_axis[2];
    if (node->missing == NULL) {
        return -1;
    }
    split(node, counters.done[which], at_axis);
    return node->missing(at_axis[0], at_axis[1]);
}

/* Runs the next position of a node. */
static void run_position(const loop_t *loop, int16_t which)
{
    const node_t *node = &nodes[loop->first + which];
    int32_t at_axis[2];
    split(node, counters.done[which], at_axis);
@RUN@    counters.done[which]++;
}

/* The node that runs next so that a follower can: itself, or one that it needs and the last node does not; -1: none. */
static int16_t ready(const loop_t *loop, int16_t which)
{
    int16_t next = which;
    int16_t before;
    if (counters.done[which] == nodes[loop->first + which].positions) {
        return -1;
    }
    before = missing(loop, next);
    while (before >= 0) {
        if (nodes[loop->first + before].aside == 0) {
            return -1;
        }
        next = before;
        before = missing(loop, next);
    }
    return next;
}

/* What the last node needs nothing of runs as far as it can, the first follower that can before all others. */
static void run_followers(const loop_t *loop, int16_t which)
{
    const node_t *node = &nodes[loop->first + which];
    int16_t i = 0;
    while (i < node->followers) {
        int16_t next = ready(loop, followers[node->first_follower + i]);
        if (next >= 0) {
            run_position(loop, next);
            i = 0;
        } else {
            i++;
        }
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

/* Runs on until all is done (0) or the next position of an input is wanted (1). */
static int run_on(void)
{
    while (counters.loop < LOOPS) {
        const loop_t *loop = &loops[counters.loop];
        int16_t top = (counters.depth > 0) ? counters.waiting[counters.depth - 1] : next_asked(loop);
        const node_t *node;
        int16_t first;
        if (top < 0) {
            start_loop((int16_t)(counters.loop + 1));
            continue;
        }
        if (counters.depth == 0) {
            counters.waiting[0] = top;
            counters.depth = 1;
        }
        node = &nodes[loop->first + top];
        if (node->run == NULL) {
            return 1;
        }
        if (counters.done[top] == node->positions) {
            counters.depth--;
            continue;
        }
        first = missing(loop, top);
        if (first >= 0) {
            counters.waiting[counters.depth] = first;
            counters.depth++;
        } else {
            counters.depth--;
            run_position(loop, top);
            run_followers(loop, top);
        }
    }
    return 0;
}
