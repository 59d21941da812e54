#ifndef PROXY_BASE_JTIDY_H
#define PROXY_BASE_JTIDY_H
/*
 * jtidy: a JSON object that another process wrote, put into JSON of ours.  It is read
 * strictly (jscan.h) and written anew without white space, its strings by buf_put_json():
 * so a part that is broken can't break the whole, and none brings a line's end along.
 * What was tidied once stays as it is.
 */
#include "proxy/base/buf.h"

/* false, and nothing was put: that is no JSON object, or there is more behind it. */
bool jtidy_put_object(struct buf *b, struct str json) MUSTCHECK;

#endif
