/* All tensors and all kept rows, at the plan's addresses. MODEL_ARENA: name of an array of the application that is used
   instead, of MODEL_ARENA_BYTES or more; models that run one after the other can share it. */
#ifdef MODEL_ARENA
extern int8_t MODEL_ARENA[];
#define memory MODEL_ARENA
#else
static int8_t memory[MODEL_GUARD + MODEL_ARENA_BYTES + MODEL_GUARD];
#endif

@GIVEN@static int8_t *bytes_at(int32_t place)
{
@FIND@    return &memory[MODEL_GUARD + place];
}
