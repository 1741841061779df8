#include "base/bad.h"

static const char *const names[] = {
#define X(id, name, text) [id] = (name),
    BAD_CLASSES(X)
#undef X
};

static const char *const texts[] = {
#define X(id, name, text) [id] = (text),
    BAD_CLASSES(X)
#undef X
};

const char *bad_name(enum bad_class cls)
{
    return (unsigned)cls < BAD_CLASSES_COUNT ? names[cls] : "unknown";
}

const char *bad_text(enum bad_class cls)
{
    return (unsigned)cls < BAD_CLASSES_COUNT ? texts[cls] : "unknown";
}
