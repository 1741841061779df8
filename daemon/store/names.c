#include "store/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define TEXT_MAX (1ULL << 32)
#define COUNT_MAX (1U << 30)

bool array_room(void *array_at, uint64_t used, uint64_t *capacity, size_t size)
{
    if (used < *capacity)
        return true;
    uint64_t wanted = *capacity ? *capacity * 2 : 64;
    void *old;
    memcpy(&old, array_at, sizeof old);
    void *grown = reallocarray(old, wanted, size);
    if (!grown)
        return false;
    memcpy(array_at, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

/* The slot of the string, or the free one where it would go. */
static uint32_t slot_of(const struct names *names, const char *string, size_t length)
{
    uint32_t mask = names->nslots - 1;
    uint32_t slot = (uint32_t)XXH3_64bits(string, length) & mask;
    while (names->slots[slot] && strcmp(names->text + names->at[names->slots[slot] - 1], string))
        slot = (slot + 1) & mask;
    return slot;
}

bool names_find(const struct names *names, const char *string, uint32_t *number)
{
    if (!names->count)
        return false;
    uint32_t found = names->slots[slot_of(names, string, strlen(string))];
    if (found)
        *number = found - 1;
    return found != 0;
}

/* Twice the slots, at most half of them used. */
static int grow_slots(struct names *names)
{
    if (names->count >= COUNT_MAX)
        return -E2BIG;
    if (names->count < names->nslots / 2)
        return 0;
    uint32_t wanted = names->nslots ? names->nslots * 2 : 64;
    uint32_t *slots = calloc(wanted, sizeof *slots);
    if (!slots)
        return -ENOMEM;
    free(names->slots);
    names->slots = slots;
    names->nslots = wanted;
    for (uint32_t i = 0; i < names->count; i++) {
        const char *string = names->text + names->at[i];
        slots[slot_of(names, string, strlen(string))] = i + 1;
    }
    return 0;
}

static int grow_text(struct names *names, uint64_t length)
{
    if (names->size + length > TEXT_MAX)
        return -E2BIG;
    if (names->size + length <= names->capacity)
        return 0;
    uint64_t wanted = (names->size + length) * 2;
    char *text = realloc(names->text, wanted);
    if (!text)
        return -ENOMEM;
    names->text = text;
    names->capacity = wanted;
    return 0;
}

static int append(struct names *names, const char *string, size_t length)
{
    uint64_t room = names->room;
    int rc = grow_text(names, length + 1);
    if (rc)
        return rc;
    if (!array_room(&names->at, names->count, &room, sizeof *names->at))
        return -ENOMEM;
    names->room = (uint32_t)room;
    memcpy(names->text + names->size, string, length + 1);
    names->at[names->count++] = names->size;
    names->size += length + 1;
    return 0;
}

int names_add(struct names *names, const char *string, uint32_t *number)
{
    size_t length = strlen(string);
    int rc = grow_slots(names);
    if (rc)
        return rc;
    uint32_t slot = slot_of(names, string, length);
    if (!names->slots[slot]) {
        rc = append(names, string, length);
        if (rc)
            return rc;
        names->slots[slot] = names->count;
    }
    *number = names->slots[slot] - 1;
    return 0;
}

uint64_t names_bytes(const struct names *names)
{
    return names->size + names->count * sizeof *names->at + names->nslots * sizeof *names->slots;
}

void names_done(struct names *names)
{
    free(names->text);
    free(names->at);
    free(names->slots);
    *names = (struct names){0};
}
