#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ctl/ctl_page.h"

#define NAME "dataloadd.prom"
#define MODE 0644 /* node_exporter has a user of its own */

static const char down[] = "# HELP dataload_up 1 where a daemon answers, 0 where none does.\n"
                           "# TYPE dataload_up gauge\n"
                           "dataload_up 0\n";

static int fail(const struct ctl *ctl, char *path, const char *what)
{
    int code = ctl_fail(ctl, CTL_UNAVAILABLE, "cannot %s %s: %m", what, path);
    free(path);
    return code;
}

/* Under a name that node_exporter passes over, until it is whole. */
static int write_textfile(const struct ctl *ctl, const char *text, size_t size)
{
    char *path = NULL, *draft = NULL;
    if (asprintf(&path, "%s/" NAME, ctl->file) < 0 ||
        asprintf(&draft, "%s/." NAME ".XXXXXX", ctl->file) < 0)
        ctl_must(NULL);
    int fd = mkstemp(draft);
    if (fd < 0) {
        free(path);
        return fail(ctl, draft, "make");
    }
    bool written = write(fd, text, size) == (ssize_t)size && fchmod(fd, MODE) == 0;
    bool closed = close(fd) == 0;
    int code = CTL_OK;
    if (!written || !closed || rename(draft, path)) {
        code = fail(ctl, path, "write");
        unlink(draft);
    } else {
        free(path);
    }
    free(draft);
    return code;
}

int ctl_metrics(const struct ctl *ctl)
{
    char *text = NULL;
    size_t size = 0;
    if (ctl->json)
        return ctl_fail(ctl, CTL_USAGE, "metrics has no --json: status --json has these figures");
    int code = ctl_page_get(ctl, "dataloadctl metrics", "metrics", &text, &size);
    if (code == CTL_OK && ctl->file)
        code = write_textfile(ctl, text, size);
    else if (code == CTL_OK)
        fwrite(text, 1, size, ctl->out);
    else if (ctl->file && (code == CTL_NOT_RUNNING || code == CTL_UNAVAILABLE))
        write_textfile(ctl, down, strlen(down));
    free(text);
    return code;
}
