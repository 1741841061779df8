/* A program of somebody else: built against the installed tree only. */
#include <dataload.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    dataload_options options = DATALOAD_OPTIONS_INIT;
    options.socket = "/nonexistent/control.sock";
    dataload *handle;
    int r = dataload_attach("feed", &options, &handle);
    int named = strstr(dataload_error(handle), options.socket) != NULL;
    printf("%s\n", dataload_version());
    dataload_detach(handle);
    return r == -ENOENT && named ? 0 : 1;
}
