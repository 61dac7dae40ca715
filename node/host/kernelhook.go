package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/config"
)

// kernelHook is a hook in the host's /etc/kernel/postinst.d. When a new kernel is installed there, the hook
// compiles the modules for it, and the first start after the reboot finds them in the cache. The host's
// package manager runs the hook: it ends with 0 whatever happens, within half an hour, and does nothing
// unless this very container serves. The zero value is no hook.
type kernelHook struct {
	path, text string
}

// hookName is the name that NVIDIA's container uses. It has no dot, because run-parts ignores names with one.
const hookName = "update-nvidia-driver"

// newKernelHook returns the zero kernelHook if the host's folder is not mounted. The error says why there can
// be no hook although the folder is mounted. onHost says whether compiled modules are stored on the host.
func newKernelHook(cfg config.Config, info driverinfo.Description, onHost bool) (kernelHook, error) {
	if cfg.KernelHooks == "" {
		return kernelHook{}, nil
	}
	there, err := mounted(cfg.KernelHooks)
	if err != nil || !there {
		return kernelHook{}, err
	}
	switch {
	case !info.Toolchain || cfg.NoCompile: // nothing to do: images for given kernels are built for each kernel
		return kernelHook{}, nil
	case !hostVisible():
		err = errors.New("the pod has no hostPID, so the host cannot find this container")
	case !onHost:
		err = fmt.Errorf("%s is not mounted from the host, so what is compiled would not outlive this container", cfg.StateDir)
	}
	if err != nil {
		return kernelHook{}, fmt.Errorf("modules for new kernels are not compiled when the host installs them (hook in %s): %w", cfg.KernelHooks, err)
	}
	return kernelHook{path: filepath.Join(cfg.KernelHooks, hookName), text: hookText(cfg)}, nil
}

// hookText returns the script, which works in the shell of every host. It starts the program in the mount
// namespace of the running container, where the program finds the same image and the same cache. The
// arguments are the configuration of the running container, without secrets.
func hookText(cfg config.Config) string {
	args := []string{"compile", "--kernel-module-type", cfg.ModuleType, "--state-dir", cfg.StateDir, "--drivers-dir", cfg.Drivers}
	for _, f := range []struct {
		flag string
		set  bool
	}{{"--drm", cfg.DRM}, {"--rdma", cfg.RDMA}} {
		if f.set {
			args = append(args, f.flag)
		}
	}
	if !cfg.Fetch {
		args = append(args, "--fetch-headers=false")
	}
	for _, f := range [][2]string{{"--module-signing-key", cfg.SigningKey}, {"--module-signing-cert", cfg.SigningCert},
		{"--module-signing-passphrase-file", cfg.SigningPassphraseFile}} {
		if f[1] != "" {
			args = append(args, f[0], f[1])
		}
	}
	for i, a := range args {
		args[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return fmt.Sprintf(`#!/bin/sh
# Written by the NVIDIA driver container, and removed when it stops. Compiles the driver's modules for a kernel that was just installed;
# never fails, and does nothing when that container does not run.
[ -n "${1:-}" ] || exit 0
grep -q '"ready": true' %[1]s/driver-status.json 2>/dev/null || exit 0
pid=$(cat %[1]s/nvidia-driver.pid 2>/dev/null)
case $pid in "" | *[!0-9]*) exit 0 ;; esac
case $(readlink "/proc/$pid/exe") in */driver-entrypoint) ;; *) exit 0 ;; esac
echo "nvidia-driver: compiling the driver's modules for kernel $1" >&2
timeout 1800 nsenter -t "$pid" -m -- /usr/local/bin/nvidia-driver %[2]s --kernel "$1" ||
    echo "nvidia-driver: no modules for kernel $1 yet: they are compiled when it runs" >&2
exit 0
`, "/run/nvidia", strings.Join(args, " "))
}

// WriteKernelHook writes the hook, if there is one.
func (h kernelHook) WriteKernelHook() error {
	if h.path == "" {
		return nil
	}
	if err := atomicwriter.WriteFile(h.path, []byte(h.text), 0o755); err != nil {
		return fmt.Errorf("modules for new kernels are not compiled when the host installs them: write the hook %s: %w", h.path, err)
	}
	return nil
}

// RemoveKernelHook removes the hook.
func (h kernelHook) RemoveKernelHook() error {
	if h.path == "" {
		return nil
	}
	if err := os.Remove(h.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the hook for new kernels %s, which does nothing from now on: %w", h.path, err)
	}
	return nil
}
