package fabric

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/driver-container/driver-container/node/daemons"
)

// Paths of NVIDIA's packages, in the image.
const (
	fmProgram    = "usr/bin/nv-fabricmanager"
	fmConfigName = "fabricmanager.cfg"
	topologyDir  = "usr/share/nvidia/nvswitch"
	fmConfig     = topologyDir + "/" + fmConfigName
	fmRun        = "var/run/nvidia-fabricmanager"
	fmLog        = "var/log/fabricmanager.log"
	smProgram    = "opt/nvidia/nvlsm/sbin/nvlsm"
	smLibraries  = "opt/nvidia/nvlsm/lib"
	smConfigName = "nvlsm.conf"
	smConfig     = "usr/share/nvidia/nvlsm/" + smConfigName
	// smSocket is where NVLSM serves the fabric manager; both of NVIDIA's configurations name it.
	smSocket = fmRun + "/fm_sm_ipc.socket"
)

// Names of the daemons.
const (
	Manager       = "nvidia-fabricmanager"
	SubnetManager = "nvlsm"
)

// What users of the driver notice while the daemons are down.
const (
	effect       = "until it is back and has registered the GPUs, new CUDA programs fail with error 802, and NVLink errors go unnoticed"
	effectAborts = effect + "; running CUDA programs may have been ended (ABORT_CUDA_JOBS_ON_FM_EXIT)"
)

// Facts says what a machine has and what the administrator wants. Empty folders are those of the
// image and of the machine it runs on.
type Facts struct {
	Root    string // of the image, default /
	Sys     string // default /sys
	Dev     string // default /dev
	Work    string // folder for generated configuration files, default /run/driver-entrypoint
	Drivers string // folder with mounted configuration files, default /drivers

	Machine Machine
	// of the fabric manager: the variables NVFM_CONFIG_*, without that prefix
	Settings map[string]string
	Mode     string // FABRIC_MODE; "": as the configuration says

	// LoadModules asks the kernel to load modules of its own that are not loaded. It is tried at
	// each start.
	LoadModules func(ctx context.Context, names ...string) error
	Log         *slog.Logger
	// how long a start waits for modules and port, default 30 s; it is tried again
	Wait time.Duration
}

func (f Facts) withDefaults() Facts {
	f.Root = cmp.Or(f.Root, "/")
	f.Sys = cmp.Or(f.Sys, "/sys")
	f.Dev = cmp.Or(f.Dev, "/dev")
	f.Work = cmp.Or(f.Work, "/run/driver-entrypoint")
	f.Drivers = cmp.Or(f.Drivers, "/drivers")
	f.Wait = cmp.Or(f.Wait, 30*time.Second)
	f.Log = cmp.Or(f.Log, slog.New(slog.DiscardHandler))
	return f
}

func (f Facts) path(name string) string { return filepath.Join(f.Root, name) }
func (f Facts) config() string          { return filepath.Join(f.Work, fmConfigName) }

func (f Facts) has(name string) bool {
	st, err := os.Stat(f.path(name))
	return err == nil && st.Mode().IsRegular()
}

// Daemons returns the programs that the machine's fabric needs, in the order of their start: none
// without switches, the fabric manager, or NVLSM and the fabric manager. An error says that the
// image lacks one, or that a setting is wrong.
//
// They start without NVIDIA's script nvidia-fabricmanager-start.sh, which needs bash and ibstat:
// each is supervised alone, and when NVLSM ends the fabric manager is started again after it.
func Daemons(f Facts) ([]daemons.Spec, error) {
	f = f.withDefaults()
	if !f.Machine.Managed() {
		return nil, nil
	}
	if fault, fix := f.fault(); fix != "" {
		return nil, fmt.Errorf("%s. %s", fault, fix)
	}
	text, err := f.configuration()
	if err != nil {
		return nil, err
	}
	manager := f.manager()
	if !f.Machine.NVLink5() {
		return []daemons.Spec{manager}, nil
	}
	var port atomic.Pointer[Port] // that NVLSM was started on last
	subnet := f.subnetManager(&port)
	manager.Needs = subnet.Name
	manager.FindArgs = func(context.Context) ([]string, string, error) {
		p := port.Load()
		return []string{"--fm-sm-mgmt-port-guid", p.guid()}, p.String(), nil
	}
	manager.Effect = effect // running programs go on, whatever ABORT_CUDA_JOBS_ON_FM_EXIT says
	if value(text, modeKey) == ModeShared {
		// GPUs keep the partitions of the former mode until they are reset. The reset runs only
		// once and not at every restart, because the GPUs may be in use by then.
		manager.After = f.resetGPUs
	}
	return []daemons.Spec{subnet, manager}, nil
}

// manager returns the fabric manager of a machine up to NVLink 4.
func (f Facts) manager() daemons.Spec {
	return daemons.Spec{
		Name: Manager, Path: f.path(fmProgram), Args: []string{"--config", f.config()}, Effect: effectAborts, Log: f.path(fmLog),
		PIDFile: f.path(
			fmRun + "/nv-fabricmanager.pid",
		), Before: func(context.Context) error { return f.configure() },
		StartWait: 5 * time.Minute, StopWait: 15 * time.Second,
	}
}

// subnetManager returns NVLSM. It stays in the foreground, and is ready when the fabric manager can
// reach it.
func (f Facts) subnetManager(port *atomic.Pointer[Port]) daemons.Spec {
	_, subnetConfig, _ := f.base(smConfigName, smConfig) //nolint:errcheck // NVLSM says what is wrong with it
	return daemons.Spec{
		Name: SubnetManager, Path: f.path(smProgram), Effect: effect,
		Args: []string{"--config", subnetConfig, "--pid_file", f.path(fmRun + "/nvlsm.pid"), "--log_file", "stdout"},
		// of its plugin for the fabric manager
		Env:    append(os.Environ(), "LD_LIBRARY_PATH="+f.path(smLibraries)),
		Socket: f.path(smSocket),
		Before: f.prepareSubnet,
		FindArgs: func(context.Context) ([]string, string, error) {
			ports, err := f.Machine.Ports(f.Sys)
			if err != nil {
				return nil, "", err
			}
			port.Store(&ports[0])
			f.Log.Info("management port of the NVLink switches", "port", ports[0].String(), "guid", ports[0].guid(), "ports", fmt.Sprint(ports))
			return []string{"--guid", ports[0].guid()}, fmt.Sprintf("%s, GUID %s, the first of %d that could be used", ports[0], ports[0].guid(), len(ports)), nil
		},
		StartWait: f.Wait + time.Minute, StopWait: 15 * time.Second,
	}
}

// resetGPUs runs nvidia-smi -r, which is killed when ctx ends.
func (f Facts) resetGPUs(ctx context.Context) error {
	const long = time.Hour // ctx ends before
	const what = "reset the GPUs after the change of FABRIC_MODE: nvidia-smi -r"
	r, err := daemons.Run(ctx, f.path("usr/bin/nvidia-smi"), []string{"-r"}, nil, long)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if r.Code != 0 {
		return fmt.Errorf("%s: exit code %d: %.300s", what, r.Code, strings.TrimSpace(r.Output()))
	}
	return nil
}

// prepareSubnet waits for modules and port, and makes the folders and device files that NVLSM
// needs.
func (f Facts) prepareSubnet(ctx context.Context) error {
	err := f.awaitPort(ctx)
	if err != nil {
		return err
	}
	err = errors.Join(
		// it writes into all of them
		os.MkdirAll(f.path(fmRun), 0o755),
		os.MkdirAll(f.path("var/log"), 0o755),
		os.MkdirAll(f.path("var/cache/nvlsm"), 0o755),
		os.RemoveAll(f.path(smSocket)), // of a predecessor
	)
	if err != nil {
		return fmt.Errorf("prepare NVLSM: %w", err)
	}
	return f.makeNodes()
}
