/* A variable of the model, kept from one run to the next as what it differs in from where it begins. */
typedef struct {
    int32_t at, kept, bytes; /* where the tensor begins, and where the variable does */
    int32_t writes;          /* 0: the variable is read, 1: it is written */
    int32_t begins;          /* the byte that all of it begins as, or.. */
    const int8_t *beginning; /* .. each of them; or none */
} remember_t;

static void remember(const remember_t *k, const box_t *box)
{
    int8_t *tensor = bytes_at(k->at);
    int8_t *kept = &kept_results[k->kept];
    int8_t *to = (k->writes != 0) ? kept : tensor;
    const int8_t *from = (k->writes != 0) ? tensor : kept;
    uint32_t four = (uint32_t)(uint8_t)k->begins * 0x01010101U;
    int32_t words = (k->beginning == NULL) ? (k->bytes / 4) : 0;
    int32_t i;
    (void)box; /* all of it */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4
#endif
    for (i = 0; i < words; i++) {
        set_word(&to[4 * i], word_at(&from[4 * i]) ^ four);
    }
    for (i = 4 * words; i < k->bytes; i++) {
        uint32_t begins = (uint32_t)((k->beginning != NULL) ? (int32_t)k->beginning[i] : k->begins);
        to[i] = (int8_t)(uint8_t)(((uint32_t)from[i] ^ begins) & 0xFFU);
    }
}
