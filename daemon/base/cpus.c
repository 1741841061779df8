#include "base/cpus.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define NODES_MAX 1024 /* as of Linux */

/* One CPU while the order is being made. */
struct place {
    struct cpus_one cpu;
    uint32_t sibling; /* which of its core's CPUs, counting those allowed */
    uint32_t turn;    /* which of its node's CPUs with this sibling number */
};

/* Sets of CPUs are sized at run time: a machine may have more than cpu_set_t. */
static size_t set_size(void)
{
    return CPU_ALLOC_SIZE(CPUS_MAX);
}

static cpu_set_t *set_new(void)
{
    return mem_new(set_size());
}

/* "0-3,8" of a file; false where it is missing. What makes no sense ends the list. */
static bool read_list(const char *path, cpu_set_t *set)
{
    FILE *file = fopen(path, "re");
    unsigned first, last;
    char separator = ',';
    if (!file)
        return false;
    while (separator == ',' && fscanf(file, "%u", &first) == 1) {
        last = first;
        separator = (char)fgetc(file);
        if (separator == '-' && fscanf(file, "%u", &last) == 1)
            separator = (char)fgetc(file);
        for (unsigned i = first; i <= last && i < CPUS_MAX; i++)
            CPU_SET_S(i, set_size(), set);
    }
    fclose(file);
    return true;
}

static bool in(const cpu_set_t *set, size_t size, unsigned number)
{
    return CPU_ISSET_S(number, size, set);
}

/* The machine's NUMA nodes; none or one: there is nothing to choose. */
static cpu_set_t *read_nodes(const char *root)
{
    cpu_set_t *nodes = set_new();
    cleanup_free char *path = mem_format("%s/sys/devices/system/node/online", root);
    read_list(path, nodes);
    return nodes;
}

static cpu_set_t *read_node(const char *root, uint32_t node)
{
    cpu_set_t *cpus = set_new();
    cleanup_free char *path = mem_format("%s/sys/devices/system/node/node%u/cpulist", root, node);
    read_list(path, cpus);
    return cpus;
}

static void find_nodes(const char *root, struct place *places, uint32_t count)
{
    cleanup_free cpu_set_t *nodes = read_nodes(root);
    for (uint32_t node = 0; node < NODES_MAX; node++) {
        if (!in(nodes, set_size(), node))
            continue;
        cleanup_free cpu_set_t *cpus = read_node(root, node);
        for (uint32_t i = 0; i < count; i++)
            if (in(cpus, set_size(), places[i].cpu.number))
                places[i].cpu.node = node;
    }
}

/* Places ascend by number. */
static void find_siblings(const char *root, struct place *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        cleanup_free cpu_set_t *core = set_new();
        cleanup_free char *file =
            mem_format("%s/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", root,
                       places[i].cpu.number);
        if (!read_list(file, core))
            continue;
        for (uint32_t j = 0; j < i; j++)
            places[i].sibling += in(core, set_size(), places[j].cpu.number);
    }
}

static void count_turns(struct place *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < i; j++)
            places[i].turn +=
                places[j].cpu.node == places[i].cpu.node && places[j].sibling == places[i].sibling;
}

static int compare(const void *left, const void *right)
{
    const struct place *a = left;
    const struct place *b = right;
    if (a->sibling != b->sibling)
        return a->sibling < b->sibling ? -1 : 1;
    if (a->turn != b->turn)
        return a->turn < b->turn ? -1 : 1;
    if (a->cpu.node != b->cpu.node)
        return a->cpu.node < b->cpu.node ? -1 : 1;
    return a->cpu.number < b->cpu.number ? -1 : 1;
}

struct cpus *cpus_at(const char *root, const cpu_set_t *allowed, size_t size, uint32_t most)
{
    uint32_t count = (uint32_t)CPU_COUNT_S(size, allowed);
    cleanup_free struct place *places = mem_array(count, sizeof *places);
    for (unsigned number = 0, i = 0; i < count; number++)
        if (in(allowed, size, number))
            places[i++].cpu.number = number;
    struct cpus *cpus = mem_new(sizeof *cpus + count * sizeof cpus->list[0]);
    cpus->count = count < most ? count : most;
    find_nodes(root, places, count);
    find_siblings(root, places, count);
    count_turns(places, count);
    qsort(places, count, sizeof *places, compare);
    for (uint32_t i = 0; i < cpus->count; i++)
        cpus->list[i] = places[i].cpu;
    return cpus;
}

static cpu_set_t *allowed_to(pid_t pid)
{
    cpu_set_t *allowed = set_new();
    if (sched_getaffinity(pid, set_size(), allowed) < 0)
        CPU_ZERO_S(set_size(), allowed);
    return allowed;
}

struct cpus *cpus_allowed(uint32_t most)
{
    cleanup_free cpu_set_t *allowed = allowed_to(0);
    return cpus_at("", allowed, set_size(), most);
}

int cpus_node_at(const char *root, const cpu_set_t *allowed, size_t size)
{
    cleanup_free cpu_set_t *nodes = read_nodes(root);
    bool several = CPU_COUNT_S(set_size(), nodes) > 1 && CPU_COUNT_S(size, allowed) > 0;
    for (uint32_t node = 0; several && node < NODES_MAX; node++) {
        if (!in(nodes, set_size(), node))
            continue;
        cleanup_free cpu_set_t *cpus = read_node(root, node);
        bool all = true;
        for (uint32_t i = 0; i < CPUS_MAX && all; i++)
            all = in(cpus, set_size(), i) || !in(allowed, size, i);
        if (all)
            return (int)node;
    }
    return -1;
}

int cpus_node(pid_t pid)
{
    cleanup_free cpu_set_t *allowed = allowed_to(pid);
    return cpus_node_at("", allowed, set_size());
}

/* One run of the list, from `first` on; returns its end. */
static uint32_t end_of_run(const cpu_set_t *set, uint32_t first)
{
    while (first < CPUS_MAX && in(set, set_size(), first))
        first++;
    return first;
}

char *cpus_text(const struct cpus *cpus, char *text, size_t size)
{
    cleanup_free cpu_set_t *set = set_new();
    for (uint32_t i = 0; i < cpus->count; i++)
        CPU_SET_S(cpus->list[i].number, set_size(), set);
    size_t length = 0;
    *text = '\0';
    for (uint32_t end, first = 0; first < CPUS_MAX && length < size; first = end + 1) {
        end = end_of_run(set, first);
        if (end == first)
            continue;
        const char *comma = length ? "," : "";
        length += (size_t)snprintf(text + length, size - length, "%s%u", comma, first);
        if (end - first > 1 && length < size)
            length += (size_t)snprintf(text + length, size - length, "-%u", end - 1);
    }
    return text;
}

int cpus_pin(uint32_t number)
{
    cleanup_free cpu_set_t *set = set_new();
    CPU_SET_S(number, set_size(), set);
    return sched_setaffinity(0, set_size(), set) < 0 ? -errno : 0;
}
