/* Between the files of the page. */
#ifndef DLP_PAGE_PARTS_H
#define DLP_PAGE_PARTS_H

#include <jansson.h>
#include <stdio.h>

/* A feed: verdict, stages, queues, mix, pictures. */
void page_feed(FILE *out, const json_t *report, const json_t *feed);
/* Clients: a card each, and the table. */
void page_clients(FILE *out, const json_t *report);

#endif
