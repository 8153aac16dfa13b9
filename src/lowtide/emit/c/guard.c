#if MODEL_GUARD > 0
/* For tests: bytes on both sides of the arena that nothing may write. */
void model_guard_set(void)
{
    int32_t i;
    for (i = 0; i < MODEL_GUARD; i++) {
        memory[i] = (int8_t)(0x5A ^ (i & 0x0F));
        memory[MODEL_GUARD + MODEL_ARENA_BYTES + i] = (int8_t)(0x5A ^ (i & 0x0F));
    }
}

int model_guard_intact(void)
{
    int32_t i;
    for (i = 0; i < MODEL_GUARD; i++) {
        if ((memory[i] != (int8_t)(0x5A ^ (i & 0x0F)))
            || (memory[MODEL_GUARD + MODEL_ARENA_BYTES + i] != (int8_t)(0x5A ^ (i & 0x0F)))) {
            return 0;
        }
    }
    return 1;
}
#endif
