package daemons

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
)

// machine creates an image and a machine under one folder.
func machine(t *testing.T, files map[string]string) Facts {
	t.Helper()
	dir := testfile.Tree(t, t.TempDir(), files)
	return Facts{
		Root: filepath.Join(dir, "root"), Sys: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "proc"),
		Work: filepath.Join(dir, "work"), Drivers: filepath.Join(dir, "drivers"), Wait: 300 * time.Millisecond,
	}
}

var (
	image = map[string]string{
		"root/" + fmProgram: "", "root/" + fmScript: "", "root/" + smConfig: "", "root/" + fmConfig: "LOG_LEVEL=4\nDAEMONIZE=0\nFABRIC_MODE=0\n",
	}
	switches = map[string]string{"proc/driver/nvidia-nvswitch/devices/0000:05:00.0": ""}
	five     = map[string]string{"sys/class/infiniband/mlx5_0/device/vpd": "\x82..SW_MNG..", "sys/class/infiniband/mlx5_1/device/vpd": "x"}
)

func join(all ...map[string]string) map[string]string {
	sum := map[string]string{}
	for _, m := range all {
		maps.Copy(sum, m)
	}
	return sum
}

func TestFabricSelection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		set   map[string]string
		want  string // name of the spec; "": none
		err   string
	}{
		"no switches":       {image, nil, "", ""},
		"other InfiniBand":  {join(image, map[string]string{"sys/class/infiniband/mlx5_1/device/vpd": "x"}), nil, "", ""},
		"switches":          {join(image, switches), nil, "nvidia-fabricmanager", ""},
		"NVLink 5":          {join(image, five), nil, "nvidia-fabricmanager with nvlsm", ""},
		"both":              {join(image, five, switches), nil, "nvidia-fabricmanager with nvlsm", ""},
		"nothing in image":  {switches, nil, "", "no /usr/share/nvidia/nvswitch/fabricmanager.cfg"},
		"no subnet manager": {join(five, map[string]string{"root/" + fmProgram: "", "root/" + fmConfig: ""}), nil, "", "no /usr/bin/nvidia-fabricmanager-start.sh"},
		"bad key":           {join(image, switches), map[string]string{"a.b": "1"}, "", "NVFM_CONFIG_a.b"},
		"no key":            {join(image, switches), map[string]string{"": "1"}, "", "not the name"},
		"two lines":         {join(image, switches), map[string]string{"A": "1\nB=2"}, "", "more than one line"},
		"ours":              {join(image, switches), map[string]string{"DAEMONIZE": "0"}, "", "belongs to the supervisor"},
		"one setting":       {join(image, switches), map[string]string{"LOG_LEVEL": "3"}, "nvidia-fabricmanager", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := machine(t, c.files)
			f.Fabric = c.set
			specs, err := FabricManager(f)
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%v, want %q", err, c.err)
			}
			var got string
			if len(specs) > 0 {
				got = specs[0].Name
			}
			if got != c.want || len(specs) > 1 {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestFabricConfiguration(t *testing.T) {
	t.Parallel()
	f := machine(t, join(image, switches))
	f.Fabric = map[string]string{"LOG_LEVEL": "2", "NEW": "a=b", "ALSO": ""}
	specs := require.Value(FabricManager(f))(t)
	s := specs[0]
	require.NoError(t, s.Before(t.Context()))
	config := filepath.Join(f.Work, "fabricmanager.cfg")
	got := require.Value(os.ReadFile(config))(t)
	assert.Same(t, "LOG_LEVEL=2\nDAEMONIZE=1\nFABRIC_MODE=0\nALSO=\nNEW=a=b\n", string(got))
	if d := cmp.Diff([]string{"-c", config}, s.Args); d != "" || !s.Required || s.After != nil {
		t.Error(d)
	}
	if st, err := os.Stat(filepath.Join(f.Root, fmRun)); err != nil || !st.IsDir() {
		t.Error("the fabric manager's folder is missing:", err)
	}
}

func TestNVLink5(t *testing.T) {
	t.Parallel()
	f := machine(t, join(image, five, map[string]string{"root/usr/bin/nvidia-smi": "#!/bin/sh\necho $1 >>\"${0%/*}/reset\"\nexit 3\n"}))
	f.Fabric = map[string]string{"FABRIC_MODE": "1"}
	specs, err := FabricManager(f)
	require.NoError(t, err)
	s := specs[0]
	began := time.Now()
	err = s.Before(t.Context())
	if err == nil || !strings.Contains(err.Error(), "mlx5_core, ib_umad is not loaded within 300ms") || time.Since(began) > 3*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	for _, m := range []string{"mlx5_core", "ib_umad"} {
		require.NoError(t, os.MkdirAll(filepath.Join(f.Sys, "module", m), 0o755))
	}
	assert.NoError(t, s.Before(t.Context()))
	if !slices.Contains(s.Args, s.PIDFile) || len(s.Also) != 1 || !slices.Contains(s.Args, s.Also[0]) || s.StartWait <= f.Wait {
		t.Errorf("%+v", s.Args)
	}
	assert.ErrorContainsf(t, s.After(t.Context()), "exit status 3", "reset")
	if got, err := os.ReadFile(filepath.Join(f.Root, "usr/bin/reset")); string(got) != "-r\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPersistencedAndVGPU(t *testing.T) {
	t.Parallel()
	if got := append(Persistenced(machine(t, nil)), VGPU(machine(t, nil))...); len(got) != 0 {
		t.Errorf("an empty image has %+v", got)
	}
	f := machine(t, map[string]string{
		"root/usr/bin/nvidia-persistenced": "", "root/usr/bin/nvidia-gridd": "", "root/usr/bin/nvidia-topologyd": "", "drivers/gridd.conf": "FeatureType=1\n",
		"drivers/ClientConfigToken/..data": "no", "drivers/ClientConfigToken/a.tok": "token",
	})
	specs := append(Persistenced(f), VGPU(f)...)
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
		if s.Before != nil {
			assert.NoError(t, s.Before(t.Context()))
		}
	}
	assert.Same(t, []string{"nvidia-persistenced", "nvidia-gridd", "nvidia-topologyd"}, names)
	for file, want := range map[string]string{"etc/nvidia/gridd.conf": "FeatureType=1\n", "etc/nvidia/ClientConfigToken/a.tok": "token"} {
		if got, err := os.ReadFile(filepath.Join(f.Root, file)); string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	assert.Errorf(t, assert.Err(os.Stat(filepath.Join(f.Root, "etc/nvidia/ClientConfigToken/..data"))), "the ConfigMap's own link was copied")
}

func FuzzApply(f *testing.F) {
	f.Add([]byte("A=1\n# A=2\nB = 3"), "A", "x")
	f.Fuzz(func(t *testing.T, text []byte, key, value string) {
		settings := map[string]string{key: value}
		if checkSettings(settings) != nil {
			return
		}
		out := apply(text, settings)
		for k, v := range settings {
			if !slices.Contains(strings.Split(string(out), "\n"), k+"="+v) {
				t.Errorf("%q: no %s=%s", out, k, v)
			}
		}
		if again := apply(out, settings); string(again) != string(out) {
			t.Errorf("%q, then %q", out, again)
		}
	})
}
