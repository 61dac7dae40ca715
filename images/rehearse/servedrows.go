package rehearse

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// deviceFiles compares the device files with what the driver made.
func (r *rehearsal) deviceFiles(ctx context.Context) (outcome, error) {
	if r.absent != "" {
		return r.unserved(), nil
	}
	text, err := r.shell(ctx, "cd /run/nvidia/driver && stat -c '/%n %t:%T' dev/nvidia* dev/nvidia-caps/* 2>/dev/null || true")
	if err != nil {
		return outcome{}, err
	}
	found := strings.Split(text, "\n")
	want := []string{"/dev/nvidia0 c3:0", "/dev/nvidiactl c3:ff"} // nv.h fixes the numbers
	if r.image.ours {
		st, err := r.status(ctx)
		if err != nil {
			return outcome{}, err
		}
		if st.Up == nil {
			return failed("the status has no driver"), nil
		}
		for _, n := range st.Up.Nodes {
			want = append(want, fmt.Sprintf("%s %x:%x", n.Path, n.Major, n.Minor))
		}
	}
	var missing []string
	for _, w := range want {
		if !slices.Contains(found, w) {
			missing = append(missing, w)
		}
	}
	if len(missing) > 0 {
		return failed("not in /run/nvidia/driver/dev: %s; there are: %s", strings.Join(missing, ", "), text), nil
	}
	return ok("%d in /run/nvidia/driver/dev, with the kernel's numbers", len(found)), nil
}

// noDevices is the exit code of an nvidia-smi whose library talks to the module and finds no GPU
// that works, as in every guest. 9 and 18 are a module that does not answer and one of another
// version.
const noDevices = 6

// libraries asks the module for its version through the driver root, as other containers do.
func (r *rehearsal) libraries(ctx context.Context) (outcome, error) {
	if r.absent != "" {
		return r.unserved(), nil
	}
	version, err := r.loadedVersion(ctx)
	if err != nil {
		return outcome{}, err
	}
	// the folders that the GPU Operator's validator and the device plugin search
	found, err := r.shell(ctx, `for d in usr/lib64 usr/lib/x86_64-linux-gnu lib64 lib/x86_64-linux-gnu; do
		for f in /run/nvidia/driver/$d/libcuda.so.[0-9]*.* /run/nvidia/driver/$d/libnvidia-ml.so.[0-9]*.*; do
		[ ! -f $f ] || echo ${f##*/}; done; done | sort -u`)
	if err != nil {
		return outcome{}, err
	}
	want := "libcuda.so." + version + "\nlibnvidia-ml.so." + version
	if found != want {
		return failed("the kernel has %s, and /run/nvidia/driver has %s", version, strings.ReplaceAll(found, "\n", ", ")), nil
	}
	result, err := r.node.Run(ctx, "chroot", "/run/nvidia/driver", "nvidia-smi")
	if err != nil {
		return outcome{}, err
	}
	if result.Code != noDevices {
		return failed("nvidia-smi ends with %d, not with %d (the library talks to the module, no GPU works): %s",
			result.Code, noDevices, result.Output), nil
	}
	return ok("%s, and NVML talks to the module", strings.ReplaceAll(found, "\n", ", ")), nil
}
