/*
 * methods.h - the table of methods. Thread: constant.
 */
#ifndef LEAFD_HTTP_RESP_API_METHODS_H
#define LEAFD_HTTP_RESP_API_METHODS_H

#include "http/resp/api/resp_method.h"

/* Static. */
const struct resp_methods *methods_table(void);

#endif
