#if MODEL_GUARD > 0
/* For tests: bytes on both sides of each array that nothing may write. */
static const struct {
    int8_t *memory;
    int32_t bytes;
} guarded[] = {@ARRAYS@};

enum { GUARDED = (int)(sizeof guarded / sizeof guarded[0]) };

void model_guard_set(void)
{
    int32_t a;
    int32_t i;
    for (a = 0; a < GUARDED; a++) {
        for (i = 0; i < MODEL_GUARD; i++) {
            guarded[a].memory[i] = (int8_t)(0x5A ^ (i & 0x0F));
            guarded[a].memory[MODEL_GUARD + guarded[a].bytes + i] = (int8_t)(0x5A ^ (i & 0x0F));
        }
    }
}

int model_guard_intact(void)
{
    int32_t a;
    int32_t i;
    for (a = 0; a < GUARDED; a++) {
        for (i = 0; i < MODEL_GUARD; i++) {
            if ((guarded[a].memory[i] != (int8_t)(0x5A ^ (i & 0x0F)))
                || (guarded[a].memory[MODEL_GUARD + guarded[a].bytes + i] != (int8_t)(0x5A ^ (i & 0x0F)))) {
                return 0;
            }
        }
    }
    return 1;
}
#endif
