// A stand-in for nvidia-smi: prints the files of the folder data beside usr. The file "code" there is an exit code, the file
// "hang" makes it wait.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static FILE *data(const char *name) {
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
	if (n < 0) return NULL;
	path[n] = 0; // ROOT/usr/local/nvidia/bin/nvidia-smi
	snprintf(strrchr(path, '/'), 64, "/../../../../data/%s", name);
	return fopen(path, "r");
}

int main(int argc, char **argv) {
	int c, code = 0;
	FILE *f = data("code");
	if (f && fscanf(f, "%d", &code) == 1) return code;
	if (data("hang")) sleep(60);
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		printf("NVIDIA-SMI version  : %s\n", VERSION);
		return 0;
	}
	f = data(argc > 1 && strcmp(argv[1], "-q") == 0 ? "smi.xml" : argc > 1 && strstr(argv[1], "memory.total") ? "usage.csv" : "query.csv");
	if (!f) return 9;
	while ((c = fgetc(f)) != EOF) putchar(c);
	return 0;
}
