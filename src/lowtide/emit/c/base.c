#if defined(__ARM_FEATURE_SAT) || defined(__ARM_FEATURE_SIMD32)
#include <arm_acle.h>
#endif

/* Functions that each op has a copy of, in which the op's sizes are constants. */
#if defined(__GNUC__)
#define INLINED static inline __attribute__((always_inline))
#else
#define INLINED static inline
#endif

/* Where a tensor lies: element (y, x, c) of position p = y * py + x * px + c * pc, which is in slot p % slots. */
typedef struct {
    int32_t base;   /* byte of the arena, or of all memories one after the other */
    int32_t slots;  /* positions there is room for; 0: the tensor is whole */
    int32_t stride; /* bytes of a slot */
    int32_t py, px, pc;
    int32_t y, x, c; /* bytes from one row, column, channel to the next inside a slot */
} view_t;

/* The part of a result that is to be made: rows, columns and channels, half-open. */
typedef struct {
    int32_t y0, y1, x0, x1, c0, c1;
} box_t;

/* Channels that are worked on at a time. */
enum { BLOCK = 8 };

INLINED int8_t *at(const view_t *v, int32_t y, int32_t x, int32_t c)
{
    int32_t place = v->base + (y * v->y) + (x * v->x) + (c * v->c);
    if (v->slots > 1) { /* the only one is 0, and a division takes long */
        place += (((y * v->py) + (x * v->px) + (c * v->pc)) % v->slots) * v->stride;
    }
    return bytes_at(place);
}

/* How many channels from one on can be reached by steps of v->c: all of them, or each has a position of its own. */
static int32_t together(const view_t *v, int32_t count)
{
    return (v->pc == 0) ? count : 1;
}

INLINED int32_t channels_beside(const view_t *v)
{
    return ((v->pc == 0) && (v->c == 1)) ? 1 : 0;
}

INLINED int32_t least(int32_t a, int32_t b)
{
    return (a < b) ? a : b;
}

INLINED int32_t most(int32_t a, int32_t b)
{
    return (a > b) ? a : b;
}

INLINED int8_t clamped(int32_t value, int32_t low, int32_t high)
{
#if defined(__ARM_FEATURE_SAT)
    if ((low == INT8_MIN) && (high == INT8_MAX)) {
        return (int8_t)__ssat(value, 8);
    }
#endif
    return (int8_t)most(low, least(high, value));
}

static int32_t leading_zeros(uint32_t value)
{
    int32_t count = 0;
    while ((count < 32) && ((value & ((uint32_t)1 << (31 - count))) == 0U)) {
        count++;
    }
    return count;
}

/* Numbers of 8, 16 and 32 bits, the lowest byte first. */
static int32_t byte_at(const int8_t *from)
{
    return (int32_t)from[0];
}

static void set_byte(int8_t *to, int32_t value)
{
    to[0] = (int8_t)(uint8_t)((uint32_t)value & 0xFFU);
}

static int32_t half_at(const int8_t *from)
{
    uint32_t bits = (uint32_t)(uint8_t)from[0] | ((uint32_t)(uint8_t)from[1] << 8);
    return (int32_t)(int16_t)(uint16_t)bits;
}

static void set_half(int8_t *to, int32_t value)
{
    uint32_t bits = (uint32_t)value;
    to[0] = (int8_t)(uint8_t)(bits & 0xFFU);
    to[1] = (int8_t)(uint8_t)((bits >> 8) & 0xFFU);
}

static uint32_t word_at(const int8_t *from)
{
    return (uint32_t)(uint8_t)from[0] | ((uint32_t)(uint8_t)from[1] << 8) | ((uint32_t)(uint8_t)from[2] << 16)
           | ((uint32_t)(uint8_t)from[3] << 24);
}

static void set_word(int8_t *to, uint32_t bits)
{
    to[0] = (int8_t)(uint8_t)(bits & 0xFFU);
    to[1] = (int8_t)(uint8_t)((bits >> 8) & 0xFFU);
    to[2] = (int8_t)(uint8_t)((bits >> 16) & 0xFFU);
    to[3] = (int8_t)(uint8_t)(bits >> 24);
}

/* Numbers of 32 bits with a point. */
typedef union {
    uint32_t bits;
    float value;
} real_t;

static float real_at(const int8_t *from)
{
    real_t real;
    real.bits = word_at(from);
    return real.value;
}

static void set_real(int8_t *to, float value)
{
    real_t real;
    real.value = value;
    set_word(to, real.bits);
}
