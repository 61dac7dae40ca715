// A stand-in for libnvidia-ml.so.1 with the calls of driver-probe: one GPU, as testdata/smi.xml describes it.
#include <string.h>

typedef int nvmlReturn_t;
enum { SUCCESS = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };

typedef struct {
	char busIdLegacy[16];
	unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;

static nvmlReturn_t text(char *to, unsigned int length, const char *from) {
	if (strlen(from) >= length) return INSUFFICIENT_SIZE;
	strcpy(to, from);
	return SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t r) { return r == NOT_SUPPORTED ? "Not Supported" : "Insufficient Size"; }
nvmlReturn_t nvmlInit_v2(void) { return SUCCESS; }
nvmlReturn_t nvmlInit(void) { return SUCCESS; }
nvmlReturn_t nvmlShutdown(void) { return SUCCESS; }
nvmlReturn_t nvmlSystemGetDriverVersion(char *v, unsigned int n) { return text(v, n, VERSION); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *v, unsigned int n) { return text(v, n, "13." VERSION); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n) { *n = 1; return SUCCESS; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **d) { *d = (void *)1; return i == 0 ? SUCCESS : NOT_SUPPORTED; }
nvmlReturn_t nvmlDeviceGetUUID(void *d, char *v, unsigned int n) { return text(v, n, "GPU-11111111-2222-3333-4444-555555555555"); }
nvmlReturn_t nvmlDeviceGetName(void *d, char *v, unsigned int n) { return text(v, n, "NVIDIA H200"); }
nvmlReturn_t nvmlDeviceGetPciInfo_v3(void *d, nvmlPciInfo_t *p) {
	memset(p, 0, sizeof *p);
	p->bus = 5;
	p->pciDeviceId = 0x233510de;
	return text(p->busId, sizeof p->busId, "00000000:05:00.0");
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(void *d, nvmlMemory_t *m) {
	m->total = 143771ULL << 20;
	m->used = 1129ULL << 20; // with 556 MiB that the driver reserves
	m->free = m->total - m->used;
	return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(void *d, nvmlUtilization_t *u) { u->gpu = 37; u->memory = 5; return SUCCESS; }
