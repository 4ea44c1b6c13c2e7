/* Standard output. What is printed waits in a buffer until a row is complete. */
#ifndef TAPCONV_CLI_OUTPUT_H
#define TAPCONV_CLI_OUTPUT_H

/* Before anything is printed. */
void output_open(void);

/* Brings out what was printed. After a failure the reason is kept, and every further call fails with it. */
int output_flush(void);

#endif
