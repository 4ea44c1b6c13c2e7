/* Runs a fuzzer's entry point over files instead of under libFuzzer: every file of the folders given, and of each file
 * also its beginnings and copies with one byte changed. Needs no particular compiler. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define MOST_BYTES 65536

static long inputs;

static void run(const uint8_t *data, size_t size)
{
    /* An allocation of exactly this size, so that a sanitizer sees a read beyond it. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    inputs++;
}

static void run_variants(uint8_t *data, size_t size)
{
    static const uint8_t bytes[] = {0, '\n', ' ', '#', '\'', '"', '\\', '(', ',', '-', '9', ':', '{', 0x7f, 0x80, 0xff};
    run(data, size);
    for (size_t end = 0; end < size; end++) run(data, end);
    for (size_t at = 0; at < size; at++) {
        const uint8_t kept = data[at];
        for (size_t i = 0; i < sizeof bytes; i++) {
            data[at] = bytes[i];
            run(data, size);
        }
        data[at] = kept;
    }
}

static int run_file(const char *path)
{
    static uint8_t data[MOST_BYTES];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    const size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    run_variants(data, size);
    return 0;
}

static int run_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        perror(path);
        return 1;
    }
    int failed = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char file[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        failed |= run_file(file);
    }
    closedir(folder);
    return failed;
}

int main(int count, char *folders[])
{
    int failed = 0;
    for (int i = 1; i < count; i++) failed |= run_folder(folders[i]);
    printf("%ld inputs\n", inputs);
    return failed != 0 || inputs == 0;
}
