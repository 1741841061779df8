/* Names that mean another interface: whoever calls one has asked for the wrong symbol. */
#include "standin.h"

#define X(symbol)                                                                                  \
    __attribute__((visibility("default"))) void symbol(void);                                      \
    void symbol(void)                                                                              \
    {                                                                                              \
        si_abort("%s of the old interface was called; ask for " #symbol "_v2", __func__);          \
    }
STANDIN_OLD_FUNCTIONS(X)
