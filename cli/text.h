#ifndef TAPCONV_CLI_TEXT_H
#define TAPCONV_CLI_TEXT_H

#include <stddef.h>

/* How many bytes the UTF-8 character at `text` has; 0 if the bytes there are none. */
size_t text_character_bytes(const char *text);

/* How many columns of a terminal `text` takes, as far as counting characters tells. */
int text_columns(const char *text);

#endif
