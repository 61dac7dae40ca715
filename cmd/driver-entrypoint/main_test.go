package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/cli"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/host"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

var podEnv = []string{"NODE_NAME=gpu-1", "POD_NAME=driver-abc", "POD_NAMESPACE=nvidia", "POD_UID=u",
	"KUBERNETES_SERVICE_HOST=fd00::1", "KUBERNETES_SERVICE_PORT=443"}

func TestRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args           string
		env            []string
		code           int
		stdout, stderr string
	}{
		{"", nil, 0, "Commands:", ""},
		{"help", nil, 0, "wait-ready", ""},
		{"version", []string{"DRIVER_VERSION=535.261.03"}, 0, "driver 535.261.03", ""},
		{"--version", []string{"DRIVER_VERSION=535.261.03"}, 0, "driver 535.261.03", ""},
		{"statos", nil, exitUsage, "", "did you mean status?"},
		{"status now", nil, exitUsage, "", "takes no arguments"},
		{"status --run-dir /nowhere", nil, 0, "absent", ""},
		{"status -o json --run-dir /nowhere", nil, 0, `"state": "absent"`, ""},
		{"status -o yaml", nil, exitUsage, "", "text or json"},
		{"status --run-dir /nowhere", []string{"DRIVER_FORMAT=json"}, 0, `"state": "absent"`, ""},
		{"status", []string{"DRIVER_FORMAT=yaml"}, exitUsage, "", "text or json"},
		{"status --run-dir here", nil, exitUsage, "", "--run-dir is"},
		{"unload --state-dir ../here", nil, exitUsage, "", "--state-dir is"},
		{"wait-ready --timeout=-1s", nil, exitUsage, "", "must not be negative"},
		{"init --max-threads many", nil, exitUsage, "", `--max-threads is "many"; it must be a whole number`},
		{"init", []string{"DRIVER_DRM=maybe"}, exitUsage, "", `DRIVER_DRM="maybe": --drm is "maybe"; it must be true or false`},
		{"init --metrics-addr :99999", nil, exitUsage, "", "a port below 65536"},
		{"init --gpu-metrics-every -1s", nil, exitUsage, "", "must not be negative"},
		{"compile --kernel ../6.1.0", nil, exitUsage, "", "as uname -r prints it"},
		{"support", nil, exitUsage, "", "takes the path of the archive"},
		{"status --frob", nil, exitUsage, "", "unknown flag"},
		{"status", []string{"DRIVER_LOG_FORMAT=xml"}, exitUsage, "", "--log-format"},
		{"probe", nil, exitUsage, "", "startup, ready, live"},
		{"probe ready --run-dir /nowhere", nil, exitNotReady, "", "no driver-entrypoint runs in this container"},
		{"probe live", nil, exitNotReady, "", "no driver-entrypoint runs"},
		{"wait-ready --timeout 10ms --run-dir /nowhere", nil, exitNotReady, "", "gave up waiting"},
		{"wait-ready --run-dir /nowhere", []string{"DRIVER_TIMEOUT=10ms"}, exitNotReady, "", "gave up waiting"},
		{"wait-ready", []string{"DRIVER_TIMEOUT=soon"}, exitUsage, "", `DRIVER_TIMEOUT="soon"`},
		{"preflight", []string{"KERNEL_MODULE_TYPE=closed"}, exitUsage, "", "KERNEL_MODULE_TYPE"},
		{"init", []string{"DRIVER_PREFLIGHT_ON_FAILURE=stay"}, exitUsage, "", "DRIVER_PREFLIGHT_ON_FAILURE"},
		{"init", []string{"DRIVER_GRAZE=1s", "DRIVER_TYPE=vgpu"}, exitUsage, "", `ignored; is the chart newer than the image? version=`},
		{"init", []string{"DRIVER_GRAZE=1s"}, exitUsage, "", `"DRIVER_GRAZE (did you mean DRIVER_GRACE?)"`},
		{"init --preflight-on-falure wait", nil, exitUsage, "", "unknown flag: --preflight-on-falure (this is version "},
		{"preflight --grace 1s", nil, exitUsage, "", "unknown flag"},
		{"unload --grace 1s", nil, exitUsage, "", "--grace"},
		{"compile --into /nowhere --kernel 6.1.0", nil, exitUsage, "", "must be open or proprietary"},
		{"compile --into /nowhere", []string{"KERNEL_MODULE_TYPE=open"}, exitUsage, "", "--kernel RELEASE"},
		{"compile --into /nowhere --kernel 6.1.0 --kernel-module-type open", nil, exitUsage, "", "driver-build made"},
		{"bake --kernel 6.1.0", nil, exitUsage, "", "bake needs the absolute path"},
		{"bake --into /nowhere --kernel 6.1.0,../x", nil, exitUsage, "", `--kernel is "../x"; it must be a release`},
		{"bake --into /nowhere", nil, exitUsage, "", "bake needs --kernel RELEASE, once for each kernel"},
		{"bake --into /nowhere", []string{"DRIVER_KERNEL=6.1.0"}, exitUsage, "", "driver-build made"},
		{"bake --into /nowhere --kernel 6.1.0 --no-compile", nil, exitUsage, "", "--no-compile makes no sense"},
		{"compile --modules nvidia", nil, exitUsage, "", "--modules is for --into"},
		{"preflight", []string{"DRIVER_MODULE_SIGNING_CERT=/cert.pem"}, exitUsage, "", "without --module-signing-key"},
		{"init --skip-preflight disk,gpu-suported,everything", nil, exitUsage, "", `no check is called "gpu-suported" (did you mean gpu-supported?), "everything"; there are kernel, system, `},
		{"preflight", []string{"DRIVER_SKIP_PREFLIGHT=dsk"}, exitUsage, "", "did you mean disk?"},
		{"preflight --skip-preflight disk,kernel-limit,", nil, exitUsage, "", "driver-build made"}, // names that are right
		{"evict", nil, exitUsage, "", "POD_UID"},
		{"evict", append(podEnv, "DRIVER_EVICT_TIMEOUT=soon"), exitUsage, "", `DRIVER_EVICT_TIMEOUT="soon"`},
		{"evict --timeout=1s", append(podEnv, "DRIVER_EVICT_TIMEOUT=10m"), exitUsage, "", "--timeout is 1s"},
		{"evict", append(podEnv, "DRIVER_EVICT_RETRY_AFTER=0s", "DRIVER_TIMEOUT=1s"), exitUsage, "", "--timeout is 5m0s and --retry-after is 0s"},
		{"evict --grace-period=-2", podEnv, exitUsage, "", "--grace-period is -2"},
		{"evict", append(podEnv, "DRIVER_RUN_DIR=here"), exitUsage, "", "--run-dir is"},
		{"evict", podEnv[:4], exitUsage, "", "KUBERNETES_SERVICE_HOST"},
		{"evict --service-account-dir /nowhere", podEnv, exitUsage, "", "projected token"},
		{"init --module-signing-passphrase x", nil, exitUsage, "", "unknown flag"}, // everybody can read arguments
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"nvidia-driver"}, strings.Fields(test.args)...), test.env, true, nil, &stdout, &stderr)
		if code != test.code || !strings.Contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) {
			t.Errorf("%q %q: exit code %d, want %d\nstdout %s\nstderr %s", test.args, test.env, code, test.code, stdout.String(), stderr.String())
		}
	}
}

// TestHelp: ci/lint reads these files, too.
func TestHelp(t *testing.T) {
	t.Parallel()
	root := (&program{}).command(t.Context())
	for _, c := range append(root.Commands(), root) {
		if !c.IsAvailableCommand() {
			continue
		}
		var stdout, stderr bytes.Buffer
		args := append(strings.Fields(c.CommandPath()), "--help")
		assert.Equalf(t, 0, run(args, nil, true, nil, &stdout, &stderr), "%s", args)
		goldentest.Compare(t, "testdata/help-"+c.Name()+".txt", stdout.String())
		for line := range strings.Lines(stdout.String()) {
			assert.Equalf(t, true, len(line) <= cli.Width+1, "%s: %s", args, line)
		}
	}
}

// TestRefusals: every verb refuses arguments and flags that it does not know, and a word for a number, a duration or a
// switch, in a sentence.
func TestRefusals(t *testing.T) {
	t.Parallel()
	root := (&program{}).command(t.Context())
	for _, c := range append(root.Commands(), root) {
		wrong := map[string]string{"no such argument": "", "--no-such-flag": "", "--log-format": ""}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Value.Type() != "string" && f.Value.Type() != "stringSlice" {
				wrong["--"+f.Name+"=word"] = "--" + f.Name + ` is "word"; it must be `
			}
		})
		for args, says := range wrong {
			var out, text bytes.Buffer
			verb := strings.Fields(strings.TrimPrefix(c.CommandPath(), root.CommandPath()) + " " + args)
			code := run(append([]string{"nvidia-driver"}, verb...), nil, true, nil, &out, &text)
			if code != exitUsage || out.Len() > 0 || text.Len() == 0 || !strings.Contains(text.String(), says) {
				t.Errorf("%s %s: exit code %d\n%s%s", c.Name(), args, code, &out, &text)
			}
		}
	}
}

// TestSchemas: what the verbs print here is as docs/schema says.
func TestSchemas(t *testing.T) {
	t.Parallel()
	for args, schema := range map[string]string{
		"status -o json --run-dir /nowhere": "status.schema.json",
		"holders -o json":                   "holders.schema.json",
	} {
		var out, text bytes.Buffer
		assert.Equalf(t, 0, run(append([]string{"nvidia-driver"}, strings.Fields(args)...), nil, true, nil, &out, &text), "exit code of %s: %s", args, &text)
		goldentest.Schema(t, schema, out.String())
	}
}

func TestStays(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		"init": true, "init -a": true, "init --accept-license --max-threads 4": true, "--accept-license": true, "-a": true,
		"-a init": true, "--log-format json init": true, "--log-format=json -a init": true, "--accept-license --max-threads 4": true, "--accept-license=true": true, "compile --kernel x": true, "reload_nvidia_peermem": true,
		"": false, "help": false, "init --help": false, "status": false, "probe ready": false, "wait-ready": false, "unload": false, "version init": false,
		"--accept-license=false": false, "--log-format init": false, "--no-such-flag init": false, "-ah": false,
	} {
		p := &program{}
		assert.Equalf(t, want, p.stays(p.command(t.Context()), strings.Fields(args)), "stays(%q)", args)
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), exitFailure},
		{usageError{errors.New("x")}, exitUsage},
		{config.ErrConfig, exitUsage},
		{&lock.HeldError{}, exitLocked},
		{&preflight.BlockedError{Checks: []preflight.Check{{Name: preflight.Headers, Status: preflight.Blocked}}}, exitUnsupported},
		{&preflight.BlockedError{Checks: []preflight.Check{{Name: preflight.Signing, Status: preflight.Blocked}}}, exitRefused},
		{blockedError{&preflight.BlockedError{Checks: []preflight.Check{{Name: preflight.Signing, Status: preflight.Blocked}}}}, exitUnsupported},
		{&buildtree.NoHeadersError{}, exitUnsupported},
		{&host.NoModulesError{}, exitUnsupported},
		{&kbuild.CompileError{Err: errors.New("x")}, exitCompile},
		{&kmod.RefusedError{}, exitRefused},
		{&node.RollbackError{Err: &kmod.RefusedError{}}, exitRefused},
		{node.ErrLeft, exitInUse},
		{status.ErrNotReady, exitNotReady},
	} {
		err := test.err
		if err != nil {
			err = fmt.Errorf("phase: %w", err)
		}
		assert.Equalf(t, test.want, exitCode(err), "exitCode(%v)", err)
	}
}

// Every flag can be set by the environment, and its help says by which variable.
func TestEveryFlagHasATwin(t *testing.T) {
	t.Parallel()
	p := &program{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	seen := map[string]bool{}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" || f.Name == "version" {
				return
			}
			seen[f.Name] = true
			if len(p.names[f]) == 0 || !strings.Contains(f.Usage, "(env ") {
				t.Errorf("%s --%s has no environment variable: %s", cmd.CommandPath(), f.Name, f.Usage)
			}
		})
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" {
				visit(sub)
			}
		}
	}
	visit(p.command(t.Context()))
	for name, variables := range ofOthers() {
		assert.Equalf(t, true, seen[name], "a flag --%s, to which the environment variables %v belong", name, variables)
	}
}
