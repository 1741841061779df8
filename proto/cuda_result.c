#include "proto/cuda_result.h"

#include <stdio.h>

static const struct row {
    dlp_cu_result code;
    int err;
    bool lost;
    const char *name, *cause;
} rows[] = {{0, 0, false, "CUDA_SUCCESS", "no error"},
#define X(code, name, err, fate, cause)                                                            \
    {code, err, DLP_CU_##fate == DLP_CU_LOST, "CUDA_ERROR_" #name, cause},
            DLP_CU_RESULTS(X)
#undef X
};

static const struct row *find(dlp_cu_result code)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code)
            return &rows[i];
    return NULL;
}

const char *dlp_cu_result_name(dlp_cu_result code)
{
    const struct row *row = find(code);
    return row ? row->name : NULL;
}

const char *dlp_cu_result_cause(dlp_cu_result code)
{
    const struct row *row = find(code);
    return row ? row->cause : "an error of the driver that this program does not know";
}

int dlp_cu_result_errno(dlp_cu_result code)
{
    const struct row *row = find(code);
    return row ? row->err : EIO;
}

bool dlp_cu_result_lost(dlp_cu_result code)
{
    const struct row *row = find(code);
    return row && row->lost;
}

int dlp_cu_result_explain(dlp_cu_result code, const char *symbol, char *text, size_t size)
{
    const char *name = dlp_cu_result_name(code);
    snprintf(text, size, "%s: %s (%u): %s", symbol, name ? name : "unknown CUDA result", code,
             dlp_cu_result_cause(code));
    return -dlp_cu_result_errno(code);
}
