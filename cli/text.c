#include "text.h"

size_t text_character_bytes(const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;
    if (byte[0] < 0x80) return 1;
    const size_t length = byte[0] >= 0xf0 ? 4 : byte[0] >= 0xe0 ? 3 : 2;
    if (byte[0] < 0xc2 || byte[0] > 0xf4) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((byte[i] & 0xc0) != 0x80) return 0;
    }
    /* Overlong forms, surrogates and what lies beyond U+10FFFF. */
    if ((byte[0] == 0xe0 && byte[1] < 0xa0) || (byte[0] == 0xed && byte[1] > 0x9f)) return 0;
    if ((byte[0] == 0xf0 && byte[1] < 0x90) || (byte[0] == 0xf4 && byte[1] > 0x8f)) return 0;
    return length;
}

int text_columns(const char *text)
{
    int columns = 0;
    while (*text != '\0') {
        const size_t length = text_character_bytes(text);
        text += length > 0 ? length : 1;
        columns++;
    }
    return columns;
}
