package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/node/cli"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/preflight"
)

// ofOthers are the environment variables of flags that are not called DRIVER_ and the name of the
// flag.
func ofOthers() map[string][]string {
	names := map[string][]string{}
	for _, v := range config.Variables() {
		if v.Flag != "" {
			names[v.Flag] = append(names[v.Flag], v.Name)
		}
	}
	return names
}

// otherVariables set no flag.
func otherVariables() (names []string) {
	for _, v := range config.Variables() {
		if v.Flag == "" {
			names = append(names, v.Name)
		}
	}
	return names
}

// dropSecrets takes secrets out of the environment of this process, so that no program that it starts
// inherits them.
func dropSecrets() {
	for _, v := range config.Variables() {
		if v.Secret {
			_ = os.Unsetenv(v.Name)
		}
	}
}

// name gives the flags that have no environment variables theirs, and says so in their help.
func (p *program) name(flags *pflag.FlagSet, prefix string) {
	others := ofOthers()
	flags.VisitAll(func(f *pflag.Flag) {
		// DRIVER_VERSION is that of the image's driver
		if f.Hidden || f.Name == "version" || p.names[f] != nil {
			return
		}
		p.names[f] = others[f.Name]
		if p.names[f] == nil {
			p.names[f] = []string{prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))}
		}
		p.names.Describe(f)
	})
}

// kernelRelease is a release; it becomes a part of paths. The kernel's own bound is 64 bytes
// (__NEW_UTS_LEN).
var kernelRelease = lazyregexp.New(`^[0-9][A-Za-z0-9._+~-]{0,63}$`)

// checkValues refuses values that are wrong for every verb that has the flag.
func checkValues(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			switch {
			case (f.Name == "run-dir" || f.Name == "state-dir") && !filepath.IsAbs(value):
				errs = append(
					errs,
					fmt.Errorf("--%s is %q; it must be an absolute path", f.Name, value),
				)
			case f.Name == "kernel" && value != "" && !kernelRelease().MatchString(value):
				errs = append(
					errs,
					fmt.Errorf("--kernel is %q; it must be a release as uname -r prints it", value),
				)
			case f.Name == "timeout" && strings.HasPrefix(value, "-"):
				errs = append(errs, fmt.Errorf("--timeout is %s; it must not be negative", value))
			}
		}
		if f.Name == "skip-preflight" {
			errs = append(errs, checkNames(values))
		}
	})
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// checkNames refuses names that no check of preflight has or had. An empty name is none.
func checkNames(names []string) error {
	known := preflight.Names()
	var unknown []string
	for _, name := range names {
		former := slices.Contains(preflight.Former(), name)
		if name == "" || former || slices.Contains(known, name) {
			continue
		}
		text := strconv.Quote(name)
		if near := distros.Nearest(name, known); len(near) > 0 {
			text += " (did you mean " + strings.Join(near, " or ") + "?)"
		}
		unknown = append(unknown, text)
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf(
		"--skip-preflight (DRIVER_SKIP_PREFLIGHT): no check is called %s; there are %s",
		strings.Join(unknown, ", "),
		strings.Join(known, ", "),
	)
}

// folderFlags are the flags of every verb that looks at the node.
func folderFlags(flags *pflag.FlagSet, c *config.Config) {
	flags.StringVar(&c.Run, "run-dir", c.Run, "folder shared with the host and other containers")
	flags.StringVar(
		&c.StateDir,
		"state-dir",
		c.StateDir,
		"storage of the host for compiled modules, logs and the driver root, where it is mounted",
	)
}

// moduleFlags are the flags about the modules of the driver.
func moduleFlags(flags *pflag.FlagSet, c *config.Config) {
	flags.StringVar(&c.ModuleType, "kernel-module-type", c.ModuleType, "flavour of the kernel modules: auto, open or proprietary")
	flags.IntVarP(&c.MaxThreads, "max-threads", "m", 0, "most compilers at a time; 0: as many as the container's processor and memory limits allow")
	flags.BoolVar(&c.Fetch, "fetch-headers", c.Fetch, "fetch kernel headers from the system's package repositories when neither image nor host has them")
	flags.StringVar(&c.Drivers, "drivers-dir", c.Drivers, "folder with <module>.conf files: parameters of modules")
	flags.BoolVar(&c.DRM, "drm", false, "load nvidia-drm too")
	flags.BoolVar(&c.RDMA, "rdma", false, "load nvidia-peermem where the node has a Mellanox device")
	flags.BoolVar(&c.GDS, "gds", false, "load nvidia-fs (GPUDirect Storage) if the image has it; the driver is ready without it")
	flags.BoolVar(&c.GDRCopy, "gdrcopy", false, "load gdrdrv (GDRCopy) if the image has it; the driver is ready without it")
	flags.BoolVar(&c.NoCompile, "no-compile", false, "only use modules that the image or the cache has")
	flags.BoolVar(&c.NoCompile, "nocompile", false, "the same, as older images spell it")
	_ = flags.MarkHidden("nocompile")
	flags.StringVar(&c.SigningKey, "module-signing-key", "", "file with the private key that signs modules which are compiled here (PEM, DER, PKCS#12)")
	flags.StringVar(&c.SigningCert, "module-signing-cert", "", "file with that key's certificate, where the key's file does not have it (PEM, DER)")
	flags.StringVar(&c.SigningPassphraseFile, "module-signing-passphrase-file", "", "file with that key's passphrase; or set "+config.Passphrase)
	flags.StringSliceVar(&c.SkipPreflight, "skip-preflight", nil, "names of checks that may not stop a start (see preflight)")
	flags.BoolVar(&c.UnloadNouveau, "unload-nouveau", false, "unload nouveau when it is loaded and nobody uses it")
}

// sourceFlags say whose modules a driver has.
func sourceFlags(flags *pflag.FlagSet, c *config.Config) {
	flags.StringVar(
		&c.Modules,
		"modules",
		c.Modules,
		"whose kernel modules: own (of the image, of the cache, or compiled) or host (the node's system loads those of this driver; a stop leaves them)",
	)
	flags.StringSliceVar(
		&c.ModuleImages,
		"module-image",
		nil,
		"root of a mounted image with modules, searched after this image; several times",
	)
}

// fabricFlags are the flags about NVLink switches, about memory across machines, and about vGPUs.
func fabricFlags(flags *pflag.FlagSet, c *config.Config) {
	flags.StringVar(
		&c.Fabric,
		"fabric",
		c.Fabric,
		"who manages the node's NVLink switches: auto (this container), external (a service of the host; ready waits for it) or ignore",
	)
	flags.StringVar(
		&c.FabricMode,
		"fabric-mode",
		c.FabricMode,
		"mode of the fabric manager: 0 bare metal, 1 shared NVSwitch, 2 vGPU; default: as its configuration says",
	)
	flags.StringVar(
		&c.VGPULicence,
		"vgpu-licence",
		c.VGPULicence,
		"what a vGPU without a licence means: warn (ready; metrics and status say it) or require (not ready)",
	)
	flags.StringVar(
		&c.IMEX,
		"imex",
		c.IMEX,
		"memory across machines: none, channel (the driver makes IMEX channel 0) or service (and nvidia-imex runs; not with ComputeDomains)",
	)
}

// stopFlags are the flags about the stop.
func stopFlags(flags *pflag.FlagSet, c *config.Config) {
	flags.DurationVar(
		&c.Grace,
		"grace",
		c.Grace,
		"how long a stop may take; 0: some seconds less than the pod's terminationGracePeriodSeconds, as the API server says, or else than 30s",
	)
	flags.StringVar(
		&c.OnBusy,
		"on-busy",
		c.OnBusy,
		"when the driver is still in use then: detach (leave it, exit 0), fail (leave it, exit 14) or wait",
	)
	flags.DurationVar(
		&c.LockTimeout,
		"lock-timeout",
		c.LockTimeout,
		"how long to wait for another instance on this node",
	)
}

// identityFlags are the names of this pod, image and node, for messages.
func identityFlags(flags *pflag.FlagSet, c *config.Config) {
	flags.StringVar(&c.Pod, "pod", "", "name of this pod, for messages")
	flags.StringVar(
		&c.PodNamespace,
		"pod-namespace",
		"",
		"namespace of this pod, for messages and Events",
	)
	flags.StringVar(&c.PodUID, "pod-uid", "", "uid of this pod, for Events")
	flags.StringVar(&c.Image, "image", "", "name of this image, for messages")
	flags.StringVar(
		&c.Host,
		"node-name",
		"",
		"name of this node, for messages, --node-condition and --safe-load",
	)
}

// complete adds to a configuration what has no flag.
func complete(c *config.Config, env []string) {
	if c.ModuleType == "auto" && cli.Lookup(env, "OPEN_KERNEL_MODULES_ENABLED") == "true" {
		c.ModuleType = "open"
	}
	if pass := cli.Lookup(env, config.Passphrase); pass != "" {
		c.SigningPassphrase = func() ([]byte, error) { return []byte(pass), nil }
	}
	c.ToolkitMissing = missingToolkit(env)
	c.VGPU = cli.Lookup(env, "DRIVER_TYPE") == "vgpu"
	c.FabricSettings = map[string]string{}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, "NVFM_CONFIG_") {
			c.FabricSettings[strings.TrimPrefix(name, "NVFM_CONFIG_")] = value
		}
	}
	if c.Host == "" {
		c.Host, _ = os.Hostname()
	}
}
