/*
 * page.h - the page at `/`: one HTML file with its style and its script, and the policy that keeps
 * everything else out of it.
 *
 * Its parts are files beside this one and are put into the binary at the build. The page contains
 * nothing of this node: its script requests all that it shows, with the viewer's rights.
 *
 * The happy path: page_new() puts the parts together and writes the headers, with the hashes of
 * style and script: nothing else may run or be shown, and no site may put the page into a frame.
 *
 * Failure modes: none. Thread: made once; constant after that, any.
 */
#ifndef LEAFD_HTTP_PAGE_PAGE_H
#define LEAFD_HTTP_PAGE_PAGE_H

#include "src/base/buf.h"

#define PAGE_TYPE "text/html;charset=UTF-8"

struct page {
    struct buf html;
    struct buf headers; /* lines with their CRLF, ended by a NUL */
};

struct page *page_new(void);
void page_free(struct page *page);

#endif
