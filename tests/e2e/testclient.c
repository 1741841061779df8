/* A trainer driven line by line: commands "verb key=value ..." on standard input, one JSON object a
 * line on standard output. Each test process of tests/e2e is one of these. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "dataload.h"
#include "proto/cuda.h"

#define HELD_MAX 64
#define ROW_MAX 64 /* bytes that are printed */

static dataload *handle;
static dataload_batch *held[HELD_MAX];

/* Batches on a GPU come back by the driver; the stream is the trainer's. */
static struct dlp_cuda cuda;
static dlp_cu_stream stream;
static int gpu = -1; /* its context is current */

static void need(dlp_cu_result result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "testclient: %s gave %u\n", what, result);
    exit(1);
}

static void use_gpu(int number)
{
    char why[500];
    dlp_cu_context context;
    if (gpu >= 0 || number < 0)
        return;
    if (dlp_cuda_open(&cuda, why, sizeof why) < 0)
        exit(1);
    gpu = number;
    need(cuda.context_retain(&context, gpu), "cuDevicePrimaryCtxRetain");
    need(cuda.context_push(context), "cuCtxPushCurrent");
    need(cuda.stream_create(&stream, DLP_CU_STREAM_NON_BLOCKING, 0), "cuStreamCreateWithPriority");
}

static void leave_gpu(void)
{
    dlp_cu_context context;
    if (gpu < 0)
        return;
    need(cuda.stream_destroy(stream), "cuStreamDestroy");
    need(cuda.context_pop(&context), "cuCtxPopCurrent");
    need(cuda.context_release(gpu), "cuDevicePrimaryCtxRelease");
}

/* Replaces what is on the GPU by a copy, to be freed. */
static void *fetch(dataload_tensor *tensor)
{
    dataload_info info = {.size = sizeof info};
    dataload_get_info(handle, &info);
    if (info.memory == DATALOAD_IN_HOST)
        return NULL;
    void *copy = malloc(tensor->bytes + 1);
    if (tensor->bytes)
        need(cuda.copy_to_host(copy, (uintptr_t)tensor->data, tensor->bytes, stream),
             "cuMemcpyDtoHAsync");
    need(cuda.stream_synchronize(stream), "cuStreamSynchronize");
    return tensor->data = copy;
}

/* DATALOADD_TEST_DEVICE=cuda makes all trainers of a test such that want a GPU. */
static int device_of(const char *text)
{
    const char *all = getenv("DATALOADD_TEST_DEVICE");
    if (!text)
        text = all && strcmp(all, "cuda") == 0 ? "gpu" : "host";
    return strcmp(text, "gpu") == 0    ? DATALOAD_GPU
           : strcmp(text, "auto") == 0 ? DATALOAD_AUTO
                                       : DATALOAD_HOST;
}

static const char *option(char *const *words, const char *key, const char *otherwise)
{
    size_t length = strlen(key);
    for (; *words; words++)
        if (strncmp(*words, key, length) == 0 && (*words)[length] == '=')
            return *words + length + 1;
    return otherwise;
}

static int64_t number(char *const *words, const char *key, int64_t otherwise)
{
    const char *text = option(words, key, NULL);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

static void print_text(const char *key, const char *text)
{
    printf("\"%s\":\"", key);
    for (; *text; text++)
        printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    printf("\"");
}

static void print_result(int rc)
{
    printf("{\"rc\":%d,", rc);
    print_text("error", handle ? dataload_error(handle) : "");
    printf("}\n");
}

static int progress_count;

static void count_progress(void *context, const char *text, uint64_t done, uint64_t total)
{
    (void)context, (void)text, (void)done, (void)total;
    progress_count++;
}

/* The lines of a file: shards of a feed of the trainer's own. */
static char **read_lines(const char *path, size_t *count)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    char **lines = NULL, *line = NULL;
    size_t room = 0;
    while (file && getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        lines = realloc(lines, (*count + 1) * sizeof *lines);
        lines[(*count)++] = strdup(line);
    }
    free(line);
    if (file)
        fclose(file);
    return lines;
}

static void free_lines(char **lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(lines[i]);
    free(lines);
}

static void attach(char *const *words)
{
    dataload_options options = DATALOAD_OPTIONS_INIT;
    options.socket = option(words, "socket", NULL);
    options.resume = option(words, "resume", NULL);
    options.job = option(words, "job", NULL);
    options.group = option(words, "group", NULL);
    options.rank = number(words, "rank", DATALOAD_UNSET);
    options.world = number(words, "world", DATALOAD_UNSET);
    options.batch = number(words, "batch", DATALOAD_UNSET);
    options.seed = number(words, "seed", DATALOAD_UNSET);
    options.epoch = number(words, "epoch", DATALOAD_UNSET);
    options.slots = number(words, "slots", DATALOAD_UNSET);
    options.timeout_ms = (int)number(words, "timeout", 60000);
    options.reconnect_ms = (int)number(words, "reconnect", 30000);
    options.probe = (int)number(words, "probe", 0);
    options.allow_replay = (int)number(words, "allow_replay", 0);
    options.device = device_of(option(words, "device", NULL));
    options.progress = count_progress;
    options.recipe = option(words, "recipe", NULL);
    char **files = read_lines(option(words, "files", NULL), &options.nfiles);
    options.files = (const char *const *)files;
    dataload_detach(handle);
    handle = NULL;
    int rc = dataload_attach(option(words, "feed", options.recipe ? NULL : ""), &options, &handle);
    free_lines(files, options.nfiles);
    if (rc) {
        print_result(rc);
        return;
    }
    dataload_info info = {.size = sizeof info};
    dataload_get_info(handle, &info);
    use_gpu(info.device);
    printf("{\"rc\":0,\"job\":\"%s\",\"rank\":%u,\"world\":%u,\"batch\":%u,\"slots\":%u,\"seed\":"
           "%" PRIu64 ",\"records\":%" PRIu64 ",\"steps\":%" PRId64
           ",\"plan_id\":\"%s\",\"fingerprint\":\"%s\",\"feed\":\"%s\",\"progress\":%d,\"notes\":[",
           info.job, info.rank, info.world, info.batch, info.slots, info.seed, info.records,
           dataload_steps(handle, info.epoch + 1), info.plan_id, info.fingerprint, info.feed,
           progress_count);
    const char *note;
    for (uint32_t i = 0; (note = dataload_note(handle, i)); i++) {
        printf(i ? ",{" : "{");
        print_text("note", note);
        printf("}");
    }
    printf("],\"epoch\":%" PRIu64 ",\"step\":%" PRIu64 ",\"first_steps\":%" PRId64 ",", info.epoch,
           info.step, dataload_steps(handle, info.epoch));
    print_text("started", info.started);
    printf(",\"memory\":%d,", (int)info.memory);
    print_text("memory_why", info.memory_why);
    printf("}\n");
}

static void print_integers(const char *key, const dataload_tensor *tensor, uint32_t rows)
{
    printf(",\"%s\":[", key);
    for (uint32_t i = 0; i < rows; i++)
        printf("%s%" PRId64, i ? "," : "",
               tensor->dtype == DATALOAD_UINT8 ? (int64_t)((uint8_t *)tensor->data)[i]
                                               : ((int64_t *)tensor->data)[i]);
    printf("]");
}

/* A short row as it is, in hexadecimal digits; else its hash. */
static void print_row(const uint8_t *row, uint64_t size)
{
    if (size > ROW_MAX)
        printf("%016" PRIx64, (uint64_t)XXH3_64bits(row, size));
    for (uint64_t i = 0; size <= ROW_MAX && i < size; i++)
        printf("%02x", row[i]);
}

static void print_rows(const char *key, const dataload_tensor *tensor, uint32_t rows)
{
    printf(",\"%s\":[", key);
    uint64_t row_bytes = rows ? tensor->bytes / tensor->shape[0] : 0;
    for (uint32_t i = 0; i < rows; i++) {
        const uint8_t *row = tensor->data;
        uint64_t at = tensor->offsets ? tensor->offsets[i] : i * row_bytes;
        uint64_t size = tensor->offsets ? tensor->offsets[i + 1] - at : row_bytes;
        printf(i ? ",\"" : "\"");
        print_row(row + at, size);
        printf("\"");
    }
    printf("]");
}

static void print_batch(const dataload_batch *batch, int number_held, int with_rows, int with_token)
{
    uint32_t rows = dataload_batch_rows(batch);
    dataload_tensor tensor;
    int rc = dataload_batch_tensor_at(batch, 0, &tensor);
    if (rc) {
        print_result(rc);
        return;
    }
    printf("{\"rc\":0,\"handle\":%d,\"epoch\":%" PRIu64 ",\"step\":%" PRIu64
           ",\"rows\":%u,\"valid\":%u",
           number_held, dataload_batch_epoch(batch), dataload_batch_step(batch), rows,
           dataload_batch_valid(batch));
    if (dataload_batch_is_replay(batch))
        printf(",\"replay\":1");
    char text[DATALOAD_TOKEN_MAX] = "";
    if (with_token && dataload_batch_token(batch, text, sizeof text) >= 0) {
        printf(",");
        print_text("token", text);
    }
    for (uint32_t i = 0; with_rows && dataload_batch_tensor_at(batch, i, &tensor) == 0; i++) {
        char key[160];
        void *copy = fetch(&tensor);
        snprintf(key, sizeof key, "%s", strcmp(tensor.name, "valid") ? tensor.name : "flags");
        if (tensor.ndim == 1 && !tensor.offsets &&
            (tensor.dtype == DATALOAD_INT64 || tensor.dtype == DATALOAD_UINT8))
            print_integers(key, &tensor, rows);
        else
            print_rows(key, &tensor, rows);
        free(copy);
    }
    printf("}\n");
}

/* The bytes of a field to a file; where its rows begin. */
static void save(const dataload_batch *batch, char *const *words)
{
    dataload_tensor tensor;
    int rc = dataload_batch_tensor(batch, option(words, "field", "image"), &tensor);
    if (rc) {
        print_result(rc);
        return;
    }
    uint32_t rows = dataload_batch_rows(batch);
    uint64_t row_bytes = tensor.bytes / tensor.shape[0];
    void *copy = fetch(&tensor);
    FILE *file = fopen(option(words, "path", "/dev/null"), "w");
    uint64_t size = tensor.offsets ? tensor.offsets[rows] : rows * row_bytes;
    int good = file && fwrite(tensor.data, 1, size, file) == size;
    if (file && fclose(file) != 0)
        good = 0;
    free(copy);
    printf("{\"rc\":%d,\"offsets\":[", good ? 0 : -5);
    for (uint32_t i = 0; i <= rows; i++)
        printf("%s%" PRIu64, i ? "," : "", tensor.offsets ? tensor.offsets[i] : i * row_bytes);
    printf("]}\n");
}

/* Pictures of a batch as planes of another type, converted on the GPU behind the stream. */
static void convert(const dataload_batch *batch, char *const *words)
{
    static const float mean[] = {0.485F, 0.456F, 0.406F}, std[] = {0.229F, 0.224F, 0.225F};
    dataload_tensor tensor;
    dlp_cu_pointer planes;
    uint32_t rows = dataload_batch_rows(batch);
    dataload_batch_tensor(batch, "image", &tensor);
    uint64_t room = tensor.bytes * (uint64_t)number(words, "width", 4);
    need(cuda.memory_alloc(&planes, room), "cuMemAlloc");
    void *to = (void *)(uintptr_t)planes;
    dataload_dtype dtype = (dataload_dtype)number(words, "dtype", DATALOAD_FLOAT32);
    int rc = dataload_batch_convert(batch, "image", to, room, dtype, mean, std, stream);
    tensor.bytes = room;
    tensor.data = to;
    void *copy = rc ? NULL : fetch(&tensor);
    if (rc) {
        print_result(rc);
    } else {
        printf("{\"rc\":0");
        print_rows("image", &tensor, rows);
        printf("}\n");
    }
    free(copy);
    need(cuda.memory_free(planes), "cuMemFree");
}

static int keep(dataload_batch *batch)
{
    for (int i = 0; i < HELD_MAX; i++) {
        if (!held[i]) {
            held[i] = batch;
            return i;
        }
    }
    abort();
}

static void next(char *const *words)
{
    dataload_batch *batch = NULL;
    int rc = dataload_next(handle, (int)number(words, "timeout", 10000), &batch);
    if (rc)
        print_result(rc);
    else
        print_batch(batch, keep(batch), (int)number(words, "rows", 1),
                    (int)number(words, "token", 0));
}

/* Batches one after the other, each released at once; ends at an error or after so many epochs or
 * batches. */
static void run(char *const *words)
{
    int64_t epochs = number(words, "epochs", INT64_MAX),
            batches = number(words, "batches", INT64_MAX);
    int64_t sleep_us = number(words, "sleep_us", 0), seen = 0, rows = 0;
    int behind = (int)number(words, "behind", 0); /* what its stream does */
    int print = (int)number(words, "print", 1), timeout = (int)number(words, "timeout", 20000),
        rc = 0;
    while (epochs > 0 && seen < batches && rc >= 0) {
        dataload_batch *batch = NULL;
        rc = dataload_next(handle, timeout, &batch);
        epochs -= rc == DATALOAD_EPOCH_END;
        if (rc)
            continue;
        seen++;
        rows += dataload_batch_rows(batch);
        if (print) {
            print_batch(batch, -1, print > 1, print > 2);
            fflush(stdout);
        }
        if (sleep_us)
            usleep((useconds_t)sleep_us);
        rc = behind ? dataload_release_on(handle, batch, stream) : dataload_release(handle, batch);
    }
    printf("{\"done\":1,\"rc\":%d,\"batches\":%" PRId64 ",\"samples\":%" PRId64 ",",
           rc < 0 ? rc : 0, seen, rows);
    print_text("error", dataload_error(handle));
    printf("}\n");
}

static void stats(void)
{
    dataload_stats s = {.size = sizeof s};
    int rc = dataload_get_stats(handle, &s);
    printf("{\"rc\":%d,\"batches\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"wait_ns\":%" PRIu64
           ",\"hold_ns\":%" PRIu64 ",\"stalls\":%" PRIu64 ",\"reconnects\":%" PRIu64
           ",\"ready\":%u,\"held\":%u,\"skipped\":%" PRIu64 ",\"replayed\":%" PRIu64 "}\n",
           rc, s.batches, s.samples, s.wait_ns, s.hold_ns, s.stalls, s.reconnects, s.ready, s.held,
           s.skipped, s.replayed);
}

static void token(char *const *words)
{
    char text[DATALOAD_TOKEN_MAX] = "";
    int rc = dataload_token(handle, text, (size_t)number(words, "size", sizeof text));
    printf("{\"rc\":%d,", rc);
    print_text("token", rc < 0 ? "" : text);
    printf("}\n");
}

/* stay: it does nothing, and has our connection open until it is killed. */
static void in_child(int64_t stay)
{
    fflush(stdout);
    pid_t pid = fork();
    while (pid == 0 && stay)
        pause();
    if (stay) {
        printf("{\"rc\":0,\"child\":%d}\n", (int)pid);
        return;
    }
    if (pid == 0) {
        dataload_batch *batch;
        int rc = dataload_next(handle, 100, &batch);
        print_result(rc);
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void command(char *const *words)
{
    const char *verb = words[0];
    int64_t slot = number(words, "handle", 0);
    if (strcmp(verb, "attach") == 0) {
        attach(words);
    } else if (strcmp(verb, "next") == 0) {
        next(words);
    } else if (strcmp(verb, "run") == 0) {
        run(words);
    } else if (strcmp(verb, "release") == 0) {
        print_result(number(words, "behind", 0) ? dataload_release_on(handle, held[slot], stream)
                                                : dataload_release(handle, held[slot]));
        if (!number(words, "keep", 0))
            held[slot] = NULL;
    } else if (strcmp(verb, "view") == 0) {
        print_batch(held[slot], (int)slot, 1, 0);
    } else if (strcmp(verb, "save") == 0) {
        save(held[slot], words);
    } else if (strcmp(verb, "convert") == 0) {
        convert(held[slot], words);
    } else if (strcmp(verb, "seek") == 0) {
        print_result(dataload_set_epoch(handle, (uint64_t)number(words, "epoch", 0)));
    } else if (strcmp(verb, "token") == 0) {
        token(words);
    } else if (strcmp(verb, "steps") == 0) {
        printf("{\"rc\":0,\"steps\":%" PRId64 "}\n",
               dataload_steps(handle, (uint64_t)number(words, "epoch", 0)));
    } else if (strcmp(verb, "stats") == 0) {
        stats();
    } else if (strcmp(verb, "fork") == 0) {
        in_child(number(words, "stay", 0));
    } else if (strcmp(verb, "detach") == 0) {
        dataload_detach(handle);
        handle = NULL;
        memset(held, 0, sizeof held);
        printf("{\"rc\":0}\n");
    } else {
        printf("{\"rc\":-22,\"error\":\"unknown verb\"}\n");
    }
}

int main(void)
{
    static char line[65536];
    while (fgets(line, sizeof line, stdin)) {
        char *words[64] = {0}, *save = NULL;
        size_t count = 0;
        for (char *word = strtok_r(line, " \n", &save); word && count < 63;
             word = strtok_r(NULL, " \n", &save))
            words[count++] = word;
        if (count)
            command(words);
        fflush(stdout);
    }
    dataload_detach(handle);
    leave_gpu();
    return 0;
}
