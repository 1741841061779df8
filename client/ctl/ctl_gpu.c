#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_table.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void print_gpus(const struct ctl *ctl, const Dlp__GpuReply *reply)
{
    static const struct ctl_column columns[] = {
        {"UUID", false}, {"NAME", false},    {"BUS", false}, {"MEMORY", true},
        {"CC", true},    {"MODE", false},    {"NUMA", true}, {"VMM", false},
        {"FD", false},   {"CONTEXT", false}, {"LENT", true}, {"FAULT", false}};
    struct ctl_table table;
    char memory[CTL_TEXT_MAX], lent[CTL_TEXT_MAX];
    ctl_table_init(&table, columns, COUNT(columns));
    for (size_t i = 0; i < reply->n_gpus; i++) {
        const Dlp__Gpu *gpu = reply->gpus[i];
        ctl_table_add(&table, "%s", gpu->uuid);
        ctl_table_add(&table, "%s", gpu->name);
        ctl_table_add(&table, "%s", gpu->bus);
        ctl_table_add(&table, "%s", gpu->memory ? ctl_text_bytes(gpu->memory, memory) : "");
        ctl_table_add(&table, "%s", gpu->capability);
        ctl_table_add(&table, "%s", gpu->mode);
        if (gpu->numa_node >= 0)
            ctl_table_add(&table, "%d", gpu->numa_node);
        else
            ctl_table_add(&table, "%s", "");
        ctl_table_add(&table, "%s", gpu->vmm ? "yes" : "no");
        ctl_table_add(&table, "%s", gpu->posix_fd ? "yes" : "no");
        ctl_table_add(&table, "%s", gpu->context ? "yes" : "no");
        ctl_table_add(&table, "%s", gpu->lent ? ctl_text_bytes(gpu->lent, lent) : "");
        ctl_table_add(&table, "%s", gpu->fault);
    }
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
}

int ctl_gpu(const struct ctl *ctl)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__GpuRequest request = DLP__GPU_REQUEST__INIT;
    struct ctl_reply reply;
    if (ctl->gpu)
        request.release = (char *)ctl->gpu;
    env.body_case = DLP__ENVELOPE__BODY_GPU_REQUEST;
    env.gpu_request = &request;
    int code = ctl_ask_once(ctl, "dataloadctl gpu", &env, DLP__ENVELOPE__BODY_GPU_REPLY,
                            CTL_DEADLINE_MS, &reply);
    if (code)
        return code;
    const Dlp__GpuReply *gpus = ctl_reply_body(&reply);
    if (ctl->json) {
        ctl_json_print(ctl->out, ctl_json_message(&gpus->base), true);
    } else {
        if (gpus->n_gpus)
            print_gpus(ctl, gpus);
        ctl_print(ctl, "batches are in %s", gpus->device);
    }
    ctl_reply_free(&reply);
    return CTL_OK;
}
