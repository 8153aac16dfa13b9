/* All tensors and all kept rows, at the plan's addresses. */
static int8_t memory[MODEL_GUARD + MODEL_ARENA_BYTES + MODEL_GUARD];

static int8_t *bytes_at(int32_t place)
{
    return &memory[MODEL_GUARD + place];
}

