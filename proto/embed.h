/* A file of the tree in the program. */
#ifndef DLP_EMBED_H
#define DLP_EMBED_H

/* The file as it is, and a zero byte. */
#define DLP_EMBED(name, path)                                                                      \
    __asm__(".pushsection .rodata\n.balign 64\n.globl " #name "\n.hidden " #name "\n" #name ":\n"  \
            ".incbin \"" path "\"\n.byte 0\n.popsection\n");                                       \
    extern const char name[] /* NOLINT(bugprone-macro-parentheses): a declaration */               \
        __attribute__((visibility("hidden")))

#endif
