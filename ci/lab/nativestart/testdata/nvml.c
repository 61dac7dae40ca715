// Stands for libnvidia-ml.so.1 of driver 535.261.03: it loads and asks NVIDIA's own first, which finds no driver
// behind the device files, and then answers as if one had been there.
#define nvmlInit_v2 answers
#include "../../../peers/gpu/testdata/nvml.c"
#undef nvmlInit_v2
#include <dlfcn.h>

nvmlReturn_t nvmlInit_v2(void) {
	void *own = dlopen("libnvidia-ml.so." VERSION, RTLD_NOW);
	nvmlReturn_t (*init)(void) = own ? (nvmlReturn_t (*)(void))dlsym(own, "nvmlInit_v2") : 0;
	if (!init) return 12; // NVML_ERROR_LIBRARY_NOT_FOUND
	init();
	return answers();
}
