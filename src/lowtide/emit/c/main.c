/* Runs the model on a host.

   Made by lowtide; make it again when the model changes.

   model_host                      sizes, and one run on made-up numbers
   model_host INPUTS OUTPUTS       runs every MODEL_INPUT_BYTES of a file, writes what comes out
   model_host --check INPUTS WANT  the same, compared with a file; status 1 if a byte differs
   model_host --time N INPUTS      nanoseconds of a run on the first input, the least of N */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int8_t input[MODEL_INPUT_BYTES];
static int8_t output[MODEL_OUTPUT_BYTES];

static void run(void)
{
    (void)model_run(@CALL@);
}

@AGAIN@
static int guarded(void)
{
#if defined(MODEL_GUARD) && (MODEL_GUARD > 0)
    return model_guard_intact();
#else
    return 1;
#endif
}

static int vectors(const char *inputs, const char *outputs, int check)
{
    static int8_t want[MODEL_OUTPUT_BYTES];
    FILE *from = fopen(inputs, "rb");
    FILE *to = fopen(outputs, (check != 0) ? "rb" : "wb");
    long runs = 0;
    long wrong = 0;
    if ((from == NULL) || (to == NULL)) {
        (void)fprintf(stderr, "cannot open %s\n", (from == NULL) ? inputs : outputs);
        return 2;
    }
    while (fread(input, 1, sizeof input, from) == sizeof input) {
        run();
        runs++;
#if defined(MODEL_HANDED_OVER) && !defined(MODEL_STATE_BYTES)
        if (same_in_rows() == 0) {
            (void)fprintf(stderr, "run %ld: another result row by row\n", runs);
            wrong++;
        }
#endif
        if (check == 0) {
            (void)fwrite(output, 1, sizeof output, to);
        } else if ((fread(want, 1, sizeof want, to) != sizeof want) || (memcmp(want, output, sizeof want) != 0)) {
            wrong++;
        }
        if (guarded() == 0) {
            (void)fprintf(stderr, "run %ld: bytes outside the arena were written\n", runs);
            return 3;
        }
    }
    (void)fclose(from);
    (void)fclose(to);
    (void)printf("%ld runs, %ld wrong\n", runs, wrong);
    return (wrong == 0) ? 0 : 1;
}

/* Seconds of a run, of so many at once that the clock sees them. */
static double taken(void)
{
    long count = 1;
    for (;;) {
        clock_t began = clock();
        clock_t ticks;
        long i;
        for (i = 0; i < count; i++) {
            run();
        }
        ticks = clock() - began;
        if ((((double)ticks * 1000.0) >= (double)CLOCKS_PER_SEC) || (count >= 4096)) {
            return (double)ticks / (double)CLOCKS_PER_SEC / (double)count;
        }
        count *= 2;
    }
}

static int timed(long runs, const char *inputs)
{
    FILE *from = fopen(inputs, "rb");
    double best = 0.0;
    long i;
    if ((from == NULL) || (fread(input, 1, sizeof input, from) != sizeof input)) {
        (void)fprintf(stderr, "cannot read %s\n", inputs);
        return 2;
    }
    (void)fclose(from);
    for (i = 0; i < runs; i++) {
        double seconds = taken();
        best = ((i == 0) || (seconds < best)) ? seconds : best;
    }
    (void)printf("%.0f\n", best * 1e9);
    return 0;
}

int main(int count, char **words)
{
    unsigned long check = 0;
    unsigned long number = 1;
    size_t i;
#if defined(MODEL_GUARD) && (MODEL_GUARD > 0)
    model_guard_set();
#endif
    if (count == 3) {
        return vectors(words[1], words[2], 0);
    }
    if ((count == 4) && (strcmp(words[1], "--check") == 0)) {
        return vectors(words[2], words[3], 1);
    }
    if ((count == 4) && (strcmp(words[1], "--time") == 0)) {
        return timed(strtol(words[2], NULL, 10), words[3]);
    }
    for (i = 0; i < sizeof input; i++) {
        number = ((number * 1103515245UL) + 12345UL) & 0x7FFFFFFFUL;
        input[i] = (int8_t)((int)(number >> 16 & 0xFFUL) - 128);
    }
    run();
    for (i = 0; i < sizeof output; i++) {
        check = ((check * 31UL) + (unsigned long)(output[i] & 0xFF)) & 0xFFFFFFFFUL;
    }
    (void)printf("arena %d B, counters %d B, weights %d B, %ld multiply-accumulates, result %08lx\n", MODEL_ARENA_BYTES,
                 MODEL_COUNTER_BYTES, MODEL_WEIGHT_BYTES, (long)MODEL_MACS, check);
    return (guarded() == 0) ? 3 : 0;
}
