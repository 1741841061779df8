#include "store/tar_kind.h"

#include <string.h>
#include <strings.h>

#define COMPRESSED(how, tool)                                                                      \
    "compressed with " how ": samples are read from their places in the file, so " tool            \
    " it once first"

static const struct {
    const char *magic;
    size_t size;
    const char *text;
} kinds[] = {
    {"\x1f\x8b", 2, COMPRESSED("gzip", "gunzip")},
    {"BZh", 3, COMPRESSED("bzip2", "bunzip2")},
    {"\xfd"
     "7zXZ",
     5, COMPRESSED("xz", "unxz")},
    {"\x28\xb5\x2f\xfd", 4, COMPRESSED("zstd", "unzstd")},
    {"\x04\x22\x4d\x18", 4, COMPRESSED("lz4", "unlz4")},
    {"PK\x03\x04", 4, "a zip archive: unpack it and pack its files as tar (dataload-pack)"},
    {"7z\xbc\xaf", 4, "a 7z archive: unpack it and pack its files as tar (dataload-pack)"},
    {"PAR1", 4, "a Parquet file"},
    {"\xff\xd8\xff", 3, "a JPEG picture"},
};

static const char *guess_page(const uint8_t *bytes, size_t size)
{
    char head[16] = "";
    while (size && strchr(" \t\r\n\xef\xbb\xbf", *bytes) && *bytes) {
        bytes++;
        size--;
    }
    memcpy(head, bytes, size < sizeof head - 1 ? size : sizeof head - 1);
    if (!strncasecmp(head, "<!doctype", 9) || !strncasecmp(head, "<html", 5) ||
        !strncasecmp(head, "<?xml", 5))
        return "an HTML or XML page, as a failed download leaves it: fetch the shard again";
    return NULL;
}

const char *tar_kind_guess(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (size >= kinds[i].size && !memcmp(bytes, kinds[i].magic, kinds[i].size))
            return kinds[i].text;
    return guess_page(bytes, size);
}
