/* Any text is refused with a message, or gives an image that opens; twice the same.  It may
 * name the files `keys` and `odd`. */
#include "tests/fuzz/compile_twice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_files files;

	conf_files_init(&files);
	need(conf_files_add(&files, CONF_MAIN, STR("f.yaml"), str_of(data, size)) ==
	     ST_OK);
	need(conf_files_add(&files, CONF_OTHER, STR("keys"), STR("{\"keys\": []}\n")) ==
	     ST_OK);
	need(conf_files_add(&files, CONF_OTHER, STR("odd"), STR("{\"keys\": [}")) ==
	     ST_OK);
	image_close(compile_twice(&files));
	conf_files_done(&files);
	return 0;
}
